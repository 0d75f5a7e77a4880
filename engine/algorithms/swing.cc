// Swing: like recursive halving and doubling, but in step s partners are rho(s) = 1 - 2 + 4 - ...
// +- 2^s ranks apart, even ranks in one direction and odd ones in the other. So on rings and tori
// messages travel less far: 1, 1, 3, 5, 11, ... hops instead of 1, 2, 4, 8, 16, ... and share fewer
// wires. Costs: see butterfly.h.
// Source: D. De Sensi, T. Bonato, D. Saam, T. Hoefler, "Swing: short-cutting rings for higher
// bandwidth allreduce", NSDI 2024. (Ranks beyond a power of two are guests here, as in
// halving_doubling; the paper has a form of its own for even numbers.)
#include <bit>

#include "engine/algorithms/butterfly.h"
#include "engine/algorithms/catalog.h"
#include "engine/algorithms/words.h"

namespace weft {
namespace {

int rho(int step) {
  int sum = 0;
  for (int i = 0, power = 1; i <= step; ++i, power *= -2) sum += power;
  return sum;
}

Program build(const Collective& c, Rank me, const Parameters&) {
  return butterfly(c, me, swing_partner);
}

Cost cost(const Collective& c, const Parameters&) { return butterfly_cost(c, swing_partner); }

}  // namespace

// In the order of the all_gather: the reduce_scatter begins with the nearest.
Rank swing_partner(Rank rank, int stage, int core) {
  const int last = std::bit_width(static_cast<unsigned>(core)) - 2;
  const int distance = rho(last - stage);
  return wrap(rank % 2 == 0 ? rank + distance : rank - distance, core);
}

Algorithm swing() {
  return {.name = "swing",
          .summary = "halving and doubling with partners close by on a ring (De Sensi et al. 2024)",
          .suits = can_spread,
          .build = build,
          .cost = cost};
}

}  // namespace weft
