// What looks after a rank's calls where streams wait and kernels do not: it sees that nothing goes
// on, and ends waits that nobody else will.
//
// A stream that waits for a cell cannot be told to stop. So, to end a rank's calls, all of its
// cells are written over with more than anybody waits for, again and again until its streams are
// empty: kernels in between find that the calls are over, write nothing, and say what was waited
// for by what the cells were before.
//
// Thread safety: any call from any thread.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>

#include "engine/device/gpu.h"
#include "engine/device/leavings.h"
#include "engine/executor/device_memory.h"
#include "kernels/device_step.h"

namespace weft {

class StreamWatch {
 public:
  // `abort`: see device::Limits; a Cause, once it is not 0. What is passed outlives this.
  static Result<std::unique_ptr<StreamWatch>> make(Gpu& device, const DeviceMap& map,
                                                   Leavings& leavings, uint32_t* abort);
  // REQUIRES: no step of the rank is on any stream.
  ~StreamWatch();
  StreamWatch(const StreamWatch&) = delete;

  // Sets what all tails of the rank have in common.
  void complete(device::Tail& tail) const;

  // Of all that the rank was given, those that have ended.
  uint64_t steps() const;
  // Tells the rank's calls to end where no step has ended for as long as the call under way may
  // wait.
  void look();
  // Ends waits, if calls were told to end; to be called until all have.
  void end_waits();

 private:
  StreamWatch(Gpu& device, const DeviceMap& map, Leavings& leavings, uint32_t* abort)
      : device_(device), map_(map), leavings_(leavings), abort_(*abort) {}
  Status prepare();
  Status write_over();
  device::Pace& pace() const { return *reinterpret_cast<device::Pace*>(words_.data()); }
  device::Watched& watched() const { return *reinterpret_cast<device::Watched*>(watched_.data()); }
  // Where cells lie, and where what they were goes: in device memory, and those that a relay
  // writes.
  struct Cells {
    std::byte* begin = nullptr;
    size_t bytes = 0;
    std::byte* was = nullptr;
  };

  Gpu& device_;
  const DeviceMap& map_;
  Leavings& leavings_;
  std::atomic_ref<uint32_t> abort_;
  Bytes words_{};  // in pinned memory: the Pace, a 1 to copy, what cells were, what they become
  std::array<Cells, 2> cells_{};
  std::byte* more_ = nullptr;  // what they become
  Bytes watched_{};            // on the device
  Gpu::Stream stream_ = nullptr;
  Gpu::Event written_ = nullptr;

  std::mutex mutex_;  // guards what follows
  bool saved_ = false;
  uint64_t steps_ = 0;
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
};

}  // namespace weft
