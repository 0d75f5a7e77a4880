// What of the options does not go together, whatever their values are.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "bench/options.h"

namespace weft::bench {

// The files that results go to, by the flags that name them; those that are asked for.
std::vector<std::pair<const char*, std::string>> destinations(const BenchOptions& options);

// Each is ok, or names the flags and says which to leave out.
Status check_for_gpus(const BenchOptions& options);
Status check_destinations(const BenchOptions& options);
Status check_purposes(const BenchOptions& options);

// Whether the files can be written; named by their flags where not.
Status check_writable(const BenchOptions& options);

}  // namespace weft::bench
