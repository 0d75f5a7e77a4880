// Pairwise exchange for all_to_all: in step i a rank sends to me+i and receives from me-i, so that
// no receiver is crowded. One hop; n-1 blocks sent per rank, which is the bandwidth bound.
//
// Sends and receives are two lanes, so neither waits for the other. In place, where what arrives
// overwrites what is still to be sent to the same peer, one lane exchanges with partner i - me in
// step i: send, then receive. Works for sizes that only the two ends of a pair know: all ranks go
// through (round, step) in the same order, so the smallest one under way can always proceed.
// Source: R. Thakur, R. Rabenseifner, W. Gropp, 2005 (pairwise exchange).
#include "engine/algorithms/catalog.h"
#include "engine/algorithms/words.h"

namespace weft {
namespace {

Program in_place(const Collective& c, Rank me) {
  const int n = c.ranks;
  Program program;
  Lane& lane = program.lane();
  for (int i = 0; i < n; ++i) {
    const Rank partner = wrap(i - me, n);
    if (partner == me) continue;
    lane.step(me * n + partner).read(input()).send({partner, 0});
    lane.step(partner * n + me).recv({partner, 0}).write(output());
  }
  return program;
}

Program build(const Collective& c, Rank me, const Parameters&) {
  const int n = c.ranks;
  if (n == 1) return alone(c);
  if (c.in_place) return in_place(c, me);
  Program program;
  Lane sends, receives;
  for (int i = 1; i < n; ++i) {
    const Rank to = wrap(me + i, n), from = wrap(me - i, n);
    sends.step(me * n + to).read(input()).send({to, 0});
    receives.step(from * n + me).recv({from, 0}).write(output());
  }
  copy_own(sends, c, me * n + me);
  program.lanes = {std::move(sends), std::move(receives)};
  return program;
}

Cost cost(const Collective& c, const Parameters&) {
  if (c.ranks == 1) return {};
  return {1, c.ranks - 1};
}

bool suits(const Collective& c) { return c.kind == Kind::all_to_all; }

}  // namespace

Algorithm pairwise() {
  return {.name = "pairwise",
          .summary = "step i: send to me+i, receive from me-i (Thakur et al. 2005)",
          .any_counts = true,
          .suits = suits,
          .build = build,
          .cost = cost,
          .turn = [](const Collective& c, const Parameters&) { return c.in_place ? 0 : 1; }};
}

}  // namespace weft
