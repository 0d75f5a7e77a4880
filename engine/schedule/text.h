// A schedule as text for people: readable form and pictures. json.h has the form for programs.
#pragma once

#include <string>

#include "engine/schedule/schedule.h"

namespace weft {

// One line: "recv_reduce_send chunk 3: link 0 from rank 2 + input -> link 0 to rank 1".
std::string to_text(const Step& step);
// One rank's program, a line per step.
std::string to_text(const Schedule& schedule, Rank rank);
std::string to_text(const Schedule& schedule);

}  // namespace weft
