// A picture of a comparison, drawn by gnuplot: per sweep, time over size with the floor, and below
// it busbw over size.
#pragma once

#include <string>

#include "base/env.h"
#include "base/status.h"
#include "bench/comparison.h"
#include "bench/report.h"

namespace weft::bench {

// Path of gnuplot; an error says what to install.
Result<std::string> find_plotter(const Environment& environment);

// What gnuplot is told, data included.
std::string plot_script(const Comparison& comparison, const RunInfo& run,
                        const std::string& output_file);

Status plot(const Comparison& comparison, const RunInfo& run, const std::string& output_file,
            const Environment& environment);

}  // namespace weft::bench
