// What a link between two ranks of this machine costs (engine/measure/node.h).
#pragma once

#include <string_view>
#include <vector>

#include "engine/measure/threads.h"
#include "engine/tuner/network.h"

namespace weft::measuring {

// Sets network.inside to what messages over this transport ("shm", "tcp") cost besides what
// `network` says already of a rank's own memory. An error where the transport cannot be made, or
// the two ends do not answer each other within seconds.
Status measure_links(std::string_view transport, Watch& watch, Network& network);

// `rates` of messages, by length, as they can be: what the bytes of a longer one take is no less
// than what those of a shorter one do. Where noise says so, neighbours that are out of order take
// what they take on average. Nor is a rate many times that of the next length: the first one has no
// shorter neighbour that would say so.
std::vector<Rate> in_order(std::vector<Rate> rates);

}  // namespace weft::measuring
