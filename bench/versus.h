// weft-bench --vs: conducts weft and its peers through the same sweep, in turn.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/env.h"
#include "bench/comparison.h"
#include "bench/options.h"

namespace weft::bench {

// Runs the whole comparison and gives the exit status. A peer that is not installed is skipped. One
// that fails, gives wrong values or shows no result for the timeout is ended, named, and left out
// of further rounds; then the exit status is kExitFailed or kExitWrong. That of weft goes before
// it.
int compare(const BenchOptions& options, const Environment& environment);

// What compare() runs: weft first. A library that is not there has a note that says what to
// install, and no program. An error where a name is not known.
Result<std::vector<Library>> find_libraries(const BenchOptions& options,
                                            const std::string& program_folder);

// A command line without what concerns the comparison as a whole.
std::vector<std::string> arguments_of_one(std::span<const std::string> command_line);

}  // namespace weft::bench
