// What a schedule must have done when the symbolic run is over, and what it cost.
#pragma once

#include "engine/schedule/verify.h"
#include "engine/schedule/verify_run.h"

namespace weft::symbolic {

struct Results {
  bool same_bits = true;
  bool canonical = true;
};

// The postcondition of one call of the run.
Status check_results(Run& run, int call_index, const Call& call, Results* results);

int chunks_sent(const Plan& plan);
double hops_bound(const Plan& plan);
double chunks_bound(const Plan& plan);

}  // namespace weft::symbolic
