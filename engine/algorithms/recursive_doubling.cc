// Recursive doubling: in step i partners at distance 2^i exchange all they have and fold it. Ranks
// beyond the largest power of two hand their input to a partner first and get the result at the
// end. all_reduce, barrier:
//   n a power of two  log2 n hops and chunks
//   otherwise         floor(log2 n) + 1 chunks and hops; one hop more where over half of the
//                     partners have a guest
// All ranks fold in the same pairs, so all get the same bits.
// Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication
// operations in MPICH", 2005.
#include <bit>

#include "engine/algorithms/catalog.h"
#include "engine/algorithms/words.h"

namespace weft {
namespace {

constexpr int kHandIn = 1, kResult = 2;  // link ids; partners exchange on link 0

Program build(const Collective& c, Rank me, const Parameters&) {
  if (c.ranks == 1) return alone(c);
  const int core = static_cast<int>(std::bit_floor(static_cast<unsigned>(c.ranks)));
  Program program;
  program.scratch_slots = 1;
  Lane& lane = program.lane();
  if (me >= core) {
    lane.step(0).read(input()).send({me - core, kHandIn});
    lane.step(0).recv({me - core, kResult}).write(output());
    return program;
  }
  const bool has_guest = me + core < c.ranks;
  Operand held = input();
  if (has_guest) {
    lane.step(0).recv({me + core, kHandIn}).read(held).write(scratch(0));
    held = scratch(0);
  }
  for (int distance = 1; distance < core; distance *= 2) {
    const LinkEnd partner{me ^ distance, 0};
    const bool last = distance * 2 == core;
    lane.step(0).read(held).send(partner);
    Step& fold = lane.step(0).recv(partner).read(held).write(last ? output() : scratch(0));
    if (last) fold.finished(reduces(c.kind));
    held = scratch(0);
  }
  if (has_guest) lane.step(0).read(output()).send({me + core, kResult});
  return program;
}

Cost cost(const Collective& c, const Parameters&) {
  const int steps = std::bit_width(static_cast<unsigned>(c.ranks)) - 1;
  const int core = 1 << steps, guests = c.ranks - core;
  if (guests == 0) return {steps, steps};
  return {steps + (2 * guests > core ? 2 : 1), steps + 1};
}

bool suits(const Collective& c) { return everyone_reduces(c.kind); }

}  // namespace

Algorithm recursive_doubling() {
  return {.name = "recursive_doubling",
          .summary = "partners at distance 1, 2, 4, ... exchange and fold (Thakur et al. 2005)",
          .suits = suits,
          .build = build,
          .cost = cost};
}

}  // namespace weft
