// What a run of weft-bench goes through: which sizes, and how often each.
#pragma once

#include <cstddef>
#include <vector>

#include "bench/options.h"

namespace weft::bench {

// The sizes of the sweep, ascending.
std::vector<size_t> message_sizes(const BenchOptions& options);

// Runs per figure: as given, or more for small messages, which a timer alone cannot tell from
// noise.
int iterations_for(const BenchOptions& options, size_t bytes, int ranks);
// Those before the clock starts: as given, or a fifth of the timed ones. Small calls go round in
// the memory that they pass data in, and the first lap is slower.
int warmup_for(const BenchOptions& options, int iterations);

}  // namespace weft::bench
