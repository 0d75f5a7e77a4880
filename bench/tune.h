// weft-bench --tune: measures this machine once, for all jobs that choose by price.
#pragma once

#include "base/env.h"
#include "bench/options.h"
#include "engine/tuner/tuning.h"

namespace weft::bench {

struct MeasuredTuning {
  Tuning tuning;
  double share = 1;  // see MeasuredNode
};

// Whether what was measured is worth keeping: an error where other programs had the cores for too
// much of the time.
Status check_measured(const MeasuredTuning& measured);

// Writes it there. Where it is not worth keeping, only if `forced`: what lies there stays.
Status keep_tuning(const MeasuredTuning& measured, const std::string& path, bool forced);

// Writes the prices to options.engine.tuning, if that names a file, else to the cache, and prints
// them. An exit status. Those of a busy machine are only printed, unless options.force is set.
int tune(const BenchOptions& options, const Environment& environment);

// Before ranks are started here: where the choice is left to weft and this machine's prices are not
// known, measures them once, keeps them as --tune does, and says so. A failure is told, and the
// table chooses.
void tune_once(const BenchOptions& options, const Environment& environment);

}  // namespace weft::bench
