// What lies in front of a rank's window, in memory that its peers have mapped.
#pragma once

#include <array>
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

// On which CPU a rank was when it last said that it runs: it seldom changes, so peers have the line
// in their caches.
class alignas(64) CpuWord {
 public:
  void set(int cpu) {
    if (this->cpu() != cpu) word_.store(cpu + 1, std::memory_order_relaxed);
  }
  int cpu() const { return word_.load(std::memory_order_relaxed) - 1; }  // -1: not known

 private:
  std::atomic<int32_t> word_{0};
};

// What peers need to read the memory of a rank's process. It is written before peers have the home,
// except for the flag: set before the rank's callers get their memory back (Transport::abandon).
struct alignas(64) MemoryWord {
  std::array<uint64_t, 2> token{};  // like no other process's: by it peers see that they can read
  std::atomic<uint32_t> withdrawn{0};

  // Who copies from the memory, and then finds is_withdrawn() false, has copied nothing that was
  // written after withdraw(): both change the word, if to what it was, so one comes after the
  // other.
  void withdraw() { withdrawn.exchange(1, std::memory_order_acq_rel); }
  bool is_withdrawn() { return withdrawn.fetch_or(0, std::memory_order_acq_rel) != 0; }
};

struct Home {
  Bell bell;
  RunningWord running;
  CpuWord cpu;
  MemoryWord memory;
};
static_assert(sizeof(Home) == 256);

}  // namespace weft::shm
