// Measures what communication costs on this machine, for the cost model (engine/tuner/network.h).
//
// Only parts are measured, never a collective: steps of an executor, a flag between two cores,
// links between two threads, copies on all cores at once, a core that turns from one thread to
// another.
#pragma once

#include <string_view>
#include <vector>

#include "engine/tuner/network.h"

namespace weft {

struct MeasuredNode {
  std::vector<Network> networks;
  // Of the time that the measuring threads ran, in which they had their cores: the less the more
  // other programs ran beside them, and the less the figures are worth. 1 where there is one core.
  double share = 1;
};

inline constexpr double kMeasureBudget = 6;  // seconds

// For each of the transports ("shm", "tcp") one node whose ranks talk over it, named after it; what
// does not depend on the transport is measured once. Takes two or three seconds, in which nothing
// else should run; where much does, nothing is repeated any more after `budget_s`, and it takes
// some ten. Threads are bound to cores for as long. An error where a transport cannot be made, or a
// link between two threads does not answer within seconds.
Result<MeasuredNode> measure_node(const std::vector<std::string_view>& transports,
                                  double budget_s = kMeasureBudget);

}  // namespace weft
