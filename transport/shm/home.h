// What lies in front of a rank's window, in memory that its peers have mapped.
#pragma once

#include <atomic>
#include <cstdint>

#include "transport/shm/bell.h"

namespace weft::shm {

// Whether a rank runs, as far as it says so: Transport::running(). Its owner writes it, peers look
// at it; nothing is ordered by it.
class alignas(64) RunningWord {
 public:
  void set(bool running) { word_.store(running ? 1 : 0, std::memory_order_relaxed); }
  bool running() const { return word_.load(std::memory_order_relaxed) != 0; }

 private:
  std::atomic<uint32_t> word_{0};  // also what fresh shared memory says
};

struct Home {
  Bell bell;
  RunningWord running;
};
static_assert(sizeof(Home) == 128);

}  // namespace weft::shm
