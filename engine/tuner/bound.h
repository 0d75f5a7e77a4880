// What no algorithm can be faster than on a network, whatever it does.
#pragma once

#include "engine/schedule/collective.h"
#include "engine/tuner/network.h"

namespace weft {

// Seconds; the largest of
//   one latency of the widest medium that the ranks need;
//   the bytes that must leave or enter a rank, and a node, over the rates of its ports;
//   every rank's reading of its input and writing of its output, at the rate of its memory.
// For all_reduce the bytes are 2(p-1)/p of the message for p ranks, or nodes, where every byte that
// leaves is sent once for folding and once as a result: P. Patarasuk, X. Yuan, JPDC 2009.
// REQUIRES: check(network, collective.ranks) is ok.
double lower_bound(const Network& network, const Collective& collective, double bytes);

}  // namespace weft
