// Draws charts with gnuplot, a program of its own.
#pragma once

#include <string>

#include "base/env.h"
#include "base/status.h"
#include "plot/chart.h"

namespace weft {

// Path of gnuplot; an error says what to install. To be asked before the work whose result is
// drawn.
Result<std::string> find_gnuplot(const Environment& environment);

// ok where the file's name says what can be drawn: .svg or .png.
Status check_plot_file(const std::string& output_file);

Status draw(const Chart& chart, const std::string& output_file, const Environment& environment);

}  // namespace weft
