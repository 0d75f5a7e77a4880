// What weft-schedule simulate was asked for, and what it found.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/tuner/simulate.h"
#include "plot/chart.h"

namespace weft {

struct Study {
  struct Cell {
    std::optional<Simulated> found;
    std::string why_not;
  };
  struct Row {
    int ranks = 0;
    int64_t bytes = 0;
    double bound_s = 0;
    std::vector<Cell> cells;  // by algorithm
  };

  Kind kind = Kind::all_reduce;
  Network network;
  std::vector<const Algorithm*> algorithms;
  std::vector<int64_t> ranks, bytes;
  Trial trial;  // what all have in common
  std::vector<Row> rows;
};

// For every count of ranks a column: time over size with the bound, and below it alpha (the time of
// the smallest message) against beta (the time per byte from there to the largest), with those
// joined than which none is better in both. REQUIRES: several sizes.
Chart chart_of(const Study& study);

}  // namespace weft
