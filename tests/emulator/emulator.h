// A GPU for tests: kernels compiled by the host's compiler, run by threads.
//
// A CUDA thread is a fiber, a block an OS thread, and a device a number of blocks that may be
// resident at once: a launch whose blocks do not fit waits until others end. A stream runs its
// launches in order; streams run beside each other. Device memory is any memory; what processes
// share is MAP_SHARED.
//
// Threads of a block run in a random order that the seed decides. What cannot go on ends the
// process with a report and an exit status of its own: a barrier that some threads have passed by
// or left (kDiverged), threads that only poll for too long (kHung), blocks for which there never
// was room (kNeverResident).
//
// Under ThreadSanitizer the fibers are its threads, and only what orders memory on a GPU orders
// them: barriers, releases, and fences after relaxed polls. It does not know scopes. x86 hides what
// a weaker processor would show, but not from ThreadSanitizer.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

namespace weft::emulator {

inline constexpr int kDiverged = 3;
inline constexpr int kHung = 4;
inline constexpr int kNeverResident = 5;

struct Settings {
  uint32_t seed = 1;
  double hang_seconds = 60;
};

class Device {
 public:
  explicit Device(int resident_blocks, Settings settings = {});
  ~Device();
  // Returns when all has ended that its streams were given before.
  void synchronize();

 private:
  friend class Stream;
  struct State;
  std::unique_ptr<State> state_;
};

class Stream {
 public:
  explicit Stream(Device& device);
  ~Stream();  // waits for everything launched

  // kernel(arguments...) by blocks * threads threads. Returns at once; arguments are copied.
  template <class Kernel, class... Arguments>
  void launch(int blocks, int threads, Kernel kernel, Arguments... arguments) {
    enqueue(blocks, threads, [=] { kernel(arguments...); });
  }
  // Goes on once that is true. It takes no room of the device.
  void wait(std::function<bool()> until);
  void synchronize();
  size_t pending() const;  // so much of what it was given has not ended

 private:
  void enqueue(int blocks, int threads, std::function<void()> kernel);

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weft::emulator
