// Work queues of CUDA, between a process and a GPU. Where a process has more streams than queues,
// some share one, and what waits on one of these keeps the other from going on.
#pragma once

#include <cstdint>

#include "base/env.h"

namespace weft {

inline constexpr uint32_t kDeviceQueues = 8;       // where nobody asks for others
inline constexpr uint32_t kDeviceQueuesMost = 32;  // that CUDA gives

// Streams of a rank at once, at most: its caller's, its communicator's own, one on which tables are
// copied for graphs, and, where streams wait, one that ends waits. All are made with the
// communicator, because to make one later could wait for kernels that wait for this rank.
inline constexpr uint32_t kStreamsOfRank = 4;

// How many queues the process has on each GPU, by its environment.
uint32_t device_queues(const Environment& env);

// Sets the environment so that there are as many as there can be, unless it says something already.
// REQUIRES: the process has one thread, and has not started CUDA.
void ask_for_device_queues();

}  // namespace weft
