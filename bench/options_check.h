// What of the options does not go together, whatever their values are.
#pragma once

#include "bench/options.h"

namespace weft::bench {

// Each is ok, or names the flags and says which to leave out.
Status check_for_gpus(const BenchOptions& options);
Status check_destinations(const BenchOptions& options);
Status check_purposes(const BenchOptions& options);

}  // namespace weft::bench
