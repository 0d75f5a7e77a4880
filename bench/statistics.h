// Order statistics of measurements.
#pragma once

#include <cstddef>
#include <vector>

namespace weft::bench {

// What `share` of the values are at most: between the two nearest where none is there exactly.
// REQUIRES: ascending, not empty; 0 <= share <= 1.
double quantile(const std::vector<double>& ascending, double share);

// Quartiles, so that one disturbed round does not show.
struct Summary {
  double median = 0, low = 0, high = 0;
  size_t values = 0;  // that it is of

  double spread() const { return median > 0 ? (high - low) / median : 0; }
};
// REQUIRES: not empty.
Summary summarize(std::vector<double> values);

}  // namespace weft::bench
