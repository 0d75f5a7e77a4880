// Which of several libraries' runs found the machine's cores where the others' did. On virtual
// machines the host moves the cores: what a library takes between near ones says nothing about
// another that had far ones.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace weft::bench {

// What a flag took from one core to another before and after a run, in us; 0: not measured, as on
// one core, and then all runs are alike.
struct Hops {
  double before_us = 0, after_us = 0;
};

// The cores of runs were as far from each other as this.
struct Distance {
  double least_us = 0, most_us = 0;
  size_t runs = 0;  // of the library that has the fewest there

  bool holds(const Hops& run) const;
};

// The distance at which there are the most runs of every library that has any; the least such
// distance where there are several. Hops at one are within 1.6 times of each other, so that no move
// of the cores came into a run. nullopt where the libraries never had the cores alike.
std::optional<Distance> alike(const std::vector<std::vector<Hops>>& runs);

}  // namespace weft::bench
