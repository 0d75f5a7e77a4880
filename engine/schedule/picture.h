// Pictures of who sends what to whom when: one round, every step taking one unit of time, messages
// and signals none, links with room for everything. A schedule that blocks is shown up to there,
// with what blocks in the table's last row; one that cannot be lowered is an error.
#pragma once

#include <string>

#include "base/status.h"
#include "engine/schedule/schedule.h"

namespace weft {

// A table: one row per unit of time, one column per lane.
Result<std::string> to_diagram(const Schedule& schedule);

// A drawing: one line per lane, time to the right, an arrow per message or signal between lanes.
Result<std::string> to_svg(const Schedule& schedule);

}  // namespace weft
