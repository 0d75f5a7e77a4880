// weft-bench --tune: measures this machine once, for all jobs that choose by price.
#pragma once

#include "base/env.h"
#include "bench/options.h"

namespace weft::bench {

// Writes the prices to options.engine.tuning, if that names a file, else to the cache, and prints
// them. An exit status.
int tune(const BenchOptions& options, const Environment& environment);

// Before ranks are started here: where the choice is left to weft and this machine's prices are not
// known, measures them once, keeps them as --tune does, and says so. A failure is told, and the
// table chooses.
void tune_once(const BenchOptions& options, const Environment& environment);

}  // namespace weft::bench
