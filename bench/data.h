// Inputs: functions of (seed, rank, element), chosen so that every reduction of them is exact in
// the element type whatever the order of its operands. The expected result is then one bit pattern,
// and the check needs no tolerance:
//
//   integers             full range, wrapping around; prod: odd; avg: no wrap-around
//   sum, avg of floats   whole numbers; the sum of all magnitudes fits the mantissa
//   prod of floats       +-1, 2 and 1/2, so few of the last two that no exponent runs over
//   premulsum of floats  as sum, divided by the rank's factor: +-1, +-2 or 1/2 (complex: also i)
//   min, max             any bits but NaN
//   no reduction         any bits
//
// With very many ranks and few mantissa bits only some ranks contribute to an element, others are
// neutral; which ones changes from element to element.
#pragma once

#include <optional>
#include <vector>

#include "base/types.h"

namespace weft::bench {

struct Recipe {
  DataType type = DataType::float32;
  std::optional<ReduceOp> op;  // none: data is only moved
  int ranks = 1;
  uint64_t seed = 0;
  // Any floats, whose sums and products need rounding: to compare runs with each other.
  bool inexact = false;
};

// Elements first, first + 1, ... of rank's input; `out` holds whole elements.
void fill_input(const Recipe& recipe, Rank rank, size_t first, Bytes out);

// The rank's factor for premulsum, one element.
std::vector<std::byte> scalar_of(const Recipe& recipe, Rank rank);

// The reduction over all ranks' elements first, first + 1, ...; REQUIRES: recipe.op, !inexact.
void fill_expected(const Recipe& recipe, size_t first, Bytes out);

}  // namespace weft::bench
