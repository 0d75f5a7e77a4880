// weft-bench --check-prices: measures this machine, then every algorithm beside its price.
#pragma once

#include "base/env.h"
#include "bench/options.h"

namespace weft::bench {

// Gives the exit status.
int check_prices(const BenchOptions& options, const Environment& environment);

}  // namespace weft::bench
