// Each rank reads what it needs out of the others' own inputs, wherever these lie, through the
// kernel (Transport::read_memory): every byte is copied once, by its receiver. For collectives that
// only move data.
//
// Two hops: a receiver waits until those are in the call whose memory it reads; nobody leaves while
// others read its own. n <= 64. It begins with the rank after its own, so that not all read the
// same one at once.
// Source: H.-W. Jin, S. Sur, L. Chai, D. K. Panda, "LiMIC: Support for High-Performance MPI
// Intra-Node Communication on Linux Cluster", ICPP 2005 (the idea; here without a module).
#include "engine/algorithms/catalog.h"
#include "engine/algorithms/visits.h"

namespace weft {
namespace {

// By source: the block that it reads there; -1: none. From one source it is never more than one.
std::vector<int> blocks_from(const Collective& c, Rank me) {
  std::vector<int> from(static_cast<size_t>(c.ranks), -1);
  for (int block = 0; block < blocks(c); ++block)
    if (in_output(c, me, block)) from[static_cast<size_t>(source_of(c, block))] = block;
  return from;
}

// Those in place and those that are not post and await the same, so any mixture is right.
Program build(const Collective& c, Rank me, const Parameters&) {
  if (c.ranks == 1) return alone(c);
  Program program;
  Lane& lane = program.lane();
  const std::vector<Rank> guests = guests_of(
      c, me, [&](Rank peer) { return blocks_from(c, peer)[static_cast<size_t>(me)] >= 0; });
  let_in(lane, guests);
  const std::vector<int> from = blocks_from(c, me);
  const auto block_of = [&](Rank source) { return from[static_cast<size_t>(source)]; };
  if (block_of(me) >= 0) copy_own(lane, c, block_of(me));
  for (int i = 1; i < c.ranks; ++i) {
    const Rank source = wrap(me + i, c.ranks);
    if (block_of(source) < 0) continue;
    Operand there = input();
    there.rank = source;
    visit(lane.step(block_of(source)).read(there).write(output()), source);
  }
  see_off(lane, guests);
  return program;
}

bool suits(const Collective& c) { return !folds(c) && may_visit(c); }

}  // namespace

Algorithm pull() {
  return {.name = "pull",
          .summary =
              "each rank reads what it needs out of the others' inputs, through the kernel "
              "(Jin et al. 2005)",
          .windows = true,
          .lines = false,
          .readable = true,
          .entered = kEntered,
          .suits = suits,
          .build = build,
          .cost = cost_of_visits,
          .turn = turn_by_one};
}

}  // namespace weft
