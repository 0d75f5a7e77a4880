// How a sleeping rank is woken: one word in memory that its peers have mapped.
//
// Invariants
//   1. Only the owner sets kAsleep (announce); anybody sets kAwake (ring), and only who changed it
//      from kAsleep makes the system call. A rank that does not sleep costs its peers one load.
//   2. The owner announces, looks once more at everything it waits for, and only then sleeps, and
//      only while the word still says kAsleep: a ring between the two is not lost.
//   3. A peer stores its data and then loads the word, without a fence between them: the load may
//      be early, so a store made in the very moment of the announcement may not ring. Its data is
//      visible well before the owner's first, short sleep ends, and the owner looks again then:
//      a missed ring costs that one sleep, and a fence would cost every message.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <ctime>

namespace weft::shm {

class alignas(64) Bell {
 public:
  // The hot path of every peer.
  void ring() {
    if (word_.load(std::memory_order_relaxed) == kAsleep) wake();
  }
  void wake() {
    if (word_.exchange(kAwake, std::memory_order_acq_rel) == kAsleep)
      ::syscall(SYS_futex, &word_, FUTEX_WAKE, 1, nullptr, nullptr, 0);
  }

  bool announced() const { return word_.load(std::memory_order_acquire) == kAsleep; }
  void announce() { word_.exchange(kAsleep, std::memory_order_seq_cst); }
  void sleep(int64_t ns) {
    const timespec time{static_cast<time_t>(ns / 1'000'000'000),
                        static_cast<long>(ns % 1'000'000'000)};
    ::syscall(SYS_futex, &word_, FUTEX_WAIT, kAsleep, &time, nullptr, 0);
  }

 private:
  static constexpr uint32_t kAwake = 0;  // also what fresh shared memory says
  static constexpr uint32_t kAsleep = 1;
  std::atomic<uint32_t> word_{kAwake};
};
static_assert(sizeof(Bell) == 64 && std::atomic<uint32_t>::is_always_lock_free);

}  // namespace weft::shm
