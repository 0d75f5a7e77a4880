// A reference interpreter of device programs (kernels/device_program.h), on host memory: all ranks
// in one thread, their lanes interleaved by a seed, steps cut into reads, writes and single cells,
// so that what is not ordered shows as wrong data.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/executor/device_script.h"
#include "kernels/cuda/operands.h"
#include "kernels/device_program.h"

namespace weft::test {

// One launch. `begin` runs when the rank comes to it, before anything of it is done; `end` when the
// rank is through with it, though others may not be, and says what is wrong, if anything.
struct DeviceLaunch {
  device::Program program;
  device::Call call;
  std::function<void()> begin;
  std::function<std::string()> end;
  const DeviceScript* script = nullptr;  // the same in steps, where the world has scripts
};

// Launches of one rank, one after the other. A rank may have several streams.
struct DeviceStream {
  Rank rank = 0;
  std::vector<DeviceLaunch> launches;
  uint32_t workers = 0;  // at most; 0: one per lane
};

// Runs all launches. `memory`: by rank, what its peers map. Empty where all is well; else what is
// wrong: what `end` said, nothing can go on, a cell that lies in the wrong rank's memory, has two
// writers or goes back.
std::string interpret(std::span<const Bytes> memory, std::span<const DeviceStream> streams,
                      uint64_t seed);

}  // namespace weft::test
