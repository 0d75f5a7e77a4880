// weft-schedule: lists algorithms, shows their schedules, proves them, says what they would cost,
// and moves them from and to files.
#pragma once

#include <span>

#include "engine/algorithms/algorithm.h"

namespace weft {

// The whole program, for these algorithms; the exit status. A program of your own may add one to
// those of the catalog: docs/your-algorithm.md.
int schedule_tool(int argc, char** argv, std::span<const Algorithm> algorithms);

}  // namespace weft
