// Charts of what was measured: time over size, and busbw over size below it, for every sweep.
#pragma once

#include <span>

#include "bench/comparison.h"
#include "bench/report.h"
#include "plot/chart.h"

namespace weft::bench {

// Each library's medians and quartiles, with the floor.
Chart chart_of(const Comparison& comparison, const RunInfo& run);

// Out of place and in place, with the floor.
Chart chart_of(std::span<const Row> rows, const RunInfo& run);

}  // namespace weft::bench
