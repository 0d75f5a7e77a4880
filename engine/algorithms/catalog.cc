#include "engine/algorithms/catalog.h"

#include <array>

namespace weft {

std::span<const Algorithm> catalog() {
  static const std::array algorithms{
      ring(),
      bidirectional_ring(),
      double_tree(),
      knomial(),
      bine(),
      recursive_doubling(),
      halving_doubling(),
      swing(),
      bruck(),
      pat(),
      direct_one_shot(),
      direct_two_shot(),
      window_one_shot(),
      window_two_shot(),
      window_round_trip(),
      zero_copy(),
      pull(),
      pairwise(),
      hierarchical(),
      exchange(),
  };
  return algorithms;
}

const Algorithm* find_algorithm(std::string_view name, std::span<const Algorithm> among) {
  for (const Algorithm& algorithm : among)
    if (algorithm.name == name) return &algorithm;
  return nullptr;
}

Schedule schedule_of(const Algorithm& algorithm, const Collective& c,
                     const Parameters& parameters) {
  Schedule schedule{c, {}};
  for (Rank r = 0; r < c.ranks; ++r) schedule.programs.push_back(algorithm.build(c, r, parameters));
  return schedule;
}

}  // namespace weft
