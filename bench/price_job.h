// The ranks' part of --check-prices: every way to run every case, measured in turn.
#pragma once

#include "bench/job.h"

namespace weft::bench {

// Prints a PricedRound per case as a line of JSON on rank 0; gives the exit status. REQUIRES:
// job.make_team makes weft's; job.meet_asleep; options.engine.tuning is a file, which is written.
int run_price_job(const BenchOptions& options, const Job& job);

}  // namespace weft::bench
