// Measures what communication costs on this machine, for the cost model (engine/tuner/network.h).
//
// Only parts are measured, never a collective: steps of an executor, a flag between two cores,
// links between two threads, copies on all cores at once, a core that turns from one thread to
// another.
#pragma once

#include <string_view>

#include "engine/tuner/network.h"

namespace weft {

// One node whose ranks talk over `transport` ("shm" or "tcp"), named after it. Takes a second or
// so, in which nothing else should run; threads are bound to cores for as long. An error where the
// transport cannot be made, or a link between two threads does not answer within seconds.
Result<Network> measure_node(std::string_view transport);

}  // namespace weft
