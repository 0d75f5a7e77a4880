// The rows of a run.
#pragma once

#include <vector>

#include "base/status.h"
#include "bench/layout.h"
#include "bench/options.h"

namespace weft::bench {

struct CaseList {
  std::vector<Case> cases;  // by operation, type, op, root, then size
  size_t skipped = 0;       // rows of ops that have no meaning on a type
};

// Sizes that come to the same number of elements are listed once.
CaseList list_cases(const BenchOptions& options, int ranks);

// Whether so many ranks have something to measure: an error where the root is none of them, where
// no reduction has a meaning, or where a collective has less than an element in all sizes, though 0
// was not asked for.
Status check_cases(const BenchOptions& options, int ranks);

// "reduce float32 sum root=1, 4096 bytes", for messages.
std::string describe(const Case& what);

}  // namespace weft::bench
