// The rows of a run.
#pragma once

#include <vector>

#include "bench/layout.h"
#include "bench/options.h"

namespace weft::bench {

struct CaseList {
  std::vector<Case> cases;  // by operation, type, op, root, then size
  size_t skipped = 0;       // rows of ops that have no meaning on a type
};

// Sizes that come to the same number of elements are listed once.
CaseList list_cases(const BenchOptions& options, int ranks);

// "reduce float32 sum root=1, 4096 bytes", for messages.
std::string describe(const Case& what);

}  // namespace weft::bench
