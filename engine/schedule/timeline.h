// When every step of one round happens if each takes one unit of time and messages and signals
// none. Steps that share a message happen at once.
#pragma once

#include <vector>

#include "engine/schedule/verify_plan.h"

namespace weft {

struct Timeline {
  static constexpr int kNever = -1;
  struct Arrow {
    int from = 0;  // ops of the plan
    int to = 0;
    bool message = true;  // else a signal
  };
  std::vector<int> starts;    // by op of the plan; kNever where the schedule blocks before it
  std::vector<int> lane_of;   // by op
  std::vector<Arrow> arrows;  // between different lanes
  int end = 0;
};

Timeline timeline_of(const symbolic::Plan& plan);

}  // namespace weft
