// A group of sends and receives: an unordered set of pair transfers, one lane per peer and
// direction, so that two ranks which both receive first cannot block each other. The k-th send from
// a rank to another meets that rank's k-th receive from it.
//   1 hop; as many chunks as the busiest rank has sends
#include <algorithm>

#include "engine/algorithms/catalog.h"
#include "engine/algorithms/words.h"

namespace weft {

Program exchange_program(const Collective& c, Rank me, const Transfers& transfers) {
  const int n = c.ranks;
  Program program;
  program.pieces = transfers.pieces;
  const auto chunk = [&](Rank from, Rank to, int k) {
    return (from * n + to) * transfers.pieces + k;
  };
  for (const auto& [peer, count] : transfers.sends) {
    Lane& lane = program.lane();
    for (int k = 0; k < count; ++k) {
      Step& step = lane.step(chunk(me, peer, k)).read(input());
      peer == me ? step.write(output()) : step.send({peer, 0});
    }
  }
  for (const auto& [peer, count] : transfers.receives) {
    if (peer == me) continue;
    Lane& lane = program.lane();
    for (int k = 0; k < count; ++k) lane.step(chunk(peer, me, k)).recv({peer, 0}).write(output());
  }
  return program;
}

namespace {

// The fullest group: two transfers between every two ranks, and to oneself.
Program build(const Collective& c, Rank me, const Parameters&) {
  Transfers transfers;
  transfers.pieces = 2;
  for (Rank r = 0; r < c.ranks; ++r) {
    transfers.sends.emplace_back(r, transfers.pieces);
    transfers.receives.emplace_back(r, transfers.pieces);
  }
  return exchange_program(c, me, transfers);
}

Cost cost(const Collective& c, const Parameters&) {
  if (c.ranks == 1) return {};
  return {1, 2 * (c.ranks - 1)};
}

// In place has no meaning: every transfer brings its own memory.
bool suits(const Collective& c) { return c.kind == Kind::exchange && !c.in_place; }

}  // namespace

Algorithm exchange() {
  return {.name = "exchange",
          .summary = "every pair of ranks by itself: groups of sends and receives",
          .any_counts = true,
          .suits = suits,
          .build = build,
          .cost = cost};
}

}  // namespace weft
