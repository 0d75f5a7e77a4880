// Recursive halving and doubling: in a reduce_scatter, partners at distance 1, 2, 4, ... swap
// halves of what they still reduce, so that every message is half as long as the one before it; an
// all_gather goes the same way back. An all_reduce is one after the other. Costs: see butterfly.h.
// Source: R. Rabenseifner, "Optimization of collective reduction operations", ICCS 2004 (vector
// halving with distance doubling, vector doubling with distance halving).
#include "engine/algorithms/butterfly.h"
#include "engine/algorithms/catalog.h"

namespace weft {
namespace {

// In the order of the all_gather.
Rank partner(Rank rank, int stage, int core) { return rank ^ (core >> (stage + 1)); }

Program build(const Collective& c, Rank me, const Parameters&) { return butterfly(c, me, partner); }

Cost cost(const Collective& c, const Parameters&) { return butterfly_cost(c, partner); }

}  // namespace

Algorithm halving_doubling() {
  return {.name = "halving_doubling",
          .summary = "partners swap halves of halves, and back (Rabenseifner 2004)",
          .suits = can_spread,
          .build = build,
          .cost = cost};
}

}  // namespace weft
