// What a link between two ranks of this machine costs (engine/measure/node.h).
#pragma once

#include <string_view>

#include "engine/measure/threads.h"
#include "engine/tuner/network.h"

namespace weft::measuring {

// Sets network.inside to what messages over this transport ("shm", "tcp") cost besides what
// `network` says already of a rank's own memory. An error where the transport cannot be made, or
// the two ends do not answer each other within seconds.
Status measure_links(std::string_view transport, Watch& watch, Network& network);

}  // namespace weft::measuring
