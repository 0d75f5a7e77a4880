// What of the options does not go together, whatever their values are.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/env.h"
#include "bench/options.h"

namespace weft::bench {

// unexpected() of base/text.h; of an option that nccl-tests has, also what to do here.
std::string unexpected_here(std::span<const std::string> words);

// The files that results go to, by the flags that name them; those that are asked for.
std::vector<std::pair<const char*, std::string>> destinations(const BenchOptions& options);

// Each is ok, or names the flags and says which to leave out.
Status check_for_gpus(const BenchOptions& options);
Status check_destinations(const BenchOptions& options);
Status check_purposes(const BenchOptions& options);
// `given`: the names of all flags on the command line.
Status check_for_tune(const BenchOptions& options, const std::vector<std::string>& given);

// Leave out the collectives that the other options have no use for; an error where none is left.
Status keep_one_form(BenchOptions& options);
Status keep_priced(BenchOptions& options);

// Before anything is measured: whether the files of results can be written, and --plot be drawn.
Status check_results(const BenchOptions& options, const Environment& environment);

}  // namespace weft::bench
