// Each rank reads what it needs out of the others' own inputs, wherever these lie, through the
// kernel (Transport::read_memory): every byte is copied once, by its receiver. For collectives that
// only move data.
//
// Two hops: a receiver waits until those are in the call whose memory it reads; nobody leaves while
// others read its own. n <= 64. It begins with the rank after its own, so that not all read the
// same one at once.
// Source: H.-W. Jin, S. Sur, L. Chai, D. K. Panda, "LiMIC: Support for High-Performance MPI
// Intra-Node Communication on Linux Cluster", ICPP 2005 (the idea; here without a module).
#include <algorithm>

#include "engine/algorithms/catalog.h"
#include "engine/algorithms/words.h"
#include "kernels/reduce.h"

namespace weft {
namespace {

constexpr int kEntered = 0, kDone = 1;  // cells

// By source: the block that it reads there; -1: none. From one source it is never more than one.
std::vector<int> blocks_from(const Collective& c, Rank me) {
  std::vector<int> from(static_cast<size_t>(c.ranks), -1);
  for (int block = 0; block < blocks(c); ++block)
    if (in_output(c, me, block)) from[static_cast<size_t>(source_of(c, block))] = block;
  return from;
}

bool reads_from(const Collective& c, Rank me, Rank source) {
  return blocks_from(c, me)[static_cast<size_t>(source)] >= 0;
}

// Those that read this rank's memory, from the next one on.
std::vector<Rank> readers(const Collective& c, Rank me) {
  std::vector<Rank> ranks;
  for (int i = 1; i < c.ranks; ++i)
    if (const Rank peer = wrap(me + i, c.ranks); reads_from(c, peer, me)) ranks.push_back(peer);
  return ranks;
}

// Those in place and those that are not post and await the same, so any mixture is right.
Program build(const Collective& c, Rank me, const Parameters&) {
  if (c.ranks == 1) return alone(c);
  Program program;
  Lane& lane = program.lane();
  const std::vector<Rank> guests = readers(c, me);
  if (!guests.empty()) {
    Step& enter = lane.step(0);
    for (const Rank guest : guests) enter.post(guest, kEntered);
  }
  const std::vector<int> from = blocks_from(c, me);
  const auto block_of = [&](Rank source) { return from[static_cast<size_t>(source)]; };
  if (block_of(me) >= 0) copy_own(lane, c, block_of(me));
  for (int i = 1; i < c.ranks; ++i) {
    const Rank source = wrap(me + i, c.ranks);
    if (block_of(source) < 0) continue;
    Operand there = input();
    there.rank = source;
    lane.step(block_of(source))
        .read(there)
        .write(output())
        .wait(source, kEntered)
        .post(source, kDone);
  }
  if (!guests.empty()) {
    Step& leave = lane.step(0);
    for (const Rank guest : guests) leave.wait(guest, kDone);
  }
  return program;
}

bool suits(const Collective& c) {
  if (folds(c) || c.kind == Kind::exchange) return false;
  if (c.kind == Kind::all_to_all && c.in_place) return false;  // what one reads, another writes
  return c.ranks <= ReduceCall::kMaxSources;
}

Cost cost(const Collective& c, const Parameters&) {
  if (c.ranks == 1) return {};
  return {2, 0};
}

}  // namespace

Algorithm pull() {
  return {.name = "pull",
          .summary =
              "each rank reads what it needs out of the others' inputs, through the kernel "
              "(Jin et al. 2005)",
          .windows = true,
          .lines = false,
          .readable = true,
          .suits = suits,
          .build = build,
          .cost = cost,
          .turn = turn_by_one};
}

}  // namespace weft
