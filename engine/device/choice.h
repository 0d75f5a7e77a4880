// How a communicator's device programs are executed: chosen when it is made, from what all ranks
// tell of where they are, and so the same on all of them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "engine/device/queues.h"

namespace weft {

// Where one rank is, and what its GPU has room for.
struct DevicePlace {
  std::string host;
  std::string gpu;                  // its UUID, which no other GPU has
  int64_t process = 0;              // equal where ranks are threads of one process
  uint32_t blocks_most = 0;         // of the interpreter kernel, resident on that GPU at once
  uint32_t queues = kDeviceQueues;  // of its process on that GPU
  bool cell_waits = true;           // a stream of that GPU can wait for a cell
};

enum class DeviceEngine : uint8_t {
  persistent,  // one launch per call, whose blocks wait for other ranks' by spinning
  stream,      // each step enqueued for itself; no kernel ever spins
};
std::string_view name(DeviceEngine engine);

struct DeviceChoice {
  DeviceEngine engine = DeviceEngine::stream;
  uint32_t blocks = 1;   // per rank and call, at most; 1 or more
  std::string reason{};  // a sentence, for the log
};

// `wish`: "auto", "persistent" or "stream". `places` by rank, at least one.
//
// auto: persistent where blocks of all ranks that meet on a GPU are sure to be resident at once:
// each rank has a GPU to itself, or those that share one are threads of one process, with a queue
// for each stream, and get equal parts of its room. GPUs that processes share are switched between
// them in slices of about a millisecond, which every wait would cost: there, stream. All ranks get
// as many blocks as the one with the least room. unsupported where neither can be: more streams of
// a process than it has queues, or streams that cannot wait. (Streams of a single rank may share a
// queue where no stream waits: they wait for each other in the order of their calls only.)
Result<DeviceChoice> choose_device_engine(std::span<const DevicePlace> places,
                                          std::string_view wish);

}  // namespace weft
