// What a thread does between polls that found nothing: spin, then yield, then sleep.
#pragma once

#include <sched.h>

#include "base/clock.h"
#include "engine/media.h"

namespace weft {

inline void cpu_relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

class Backoff {
 public:
  // `crowded`: more ranks than cores on this host; then spinning only keeps peers from running, and
  // whoever found nothing in a few turns is better woken than asked again. Else sleep soon, too:
  // two ranks that were started on one core are told apart by the scheduler when it wakes one of
  // them, not while both spin or yield.
  explicit Backoff(bool crowded) : spins_(crowded ? 2 : 1000), yields_(crowded ? 16 : 8) {}

  void reset() { idle_ = 0; }
  uint32_t idle() const { return idle_; }
  // Connections, deaths, notes and deadlines want a look: now and then, soon after going idle.
  bool look_around() const { return (idle_ & 127) == 32 || idle_ > spins_ + yields_; }

  void pause(Media& media, const Deadline& deadline) {
    ++idle_;
    if (idle_ <= spins_) return cpu_relax();
    if (idle_ <= spins_ + yields_) {
      ::sched_yield();
      return;
    }
    constexpr double kNap = 0.001;
    const double left = static_cast<double>(deadline.left_ns()) * 1e-9;
    media.wait(Deadline::after(std::min(kNap, left), media.clock()));
  }

 private:
  const uint32_t spins_, yields_;
  uint32_t idle_ = 0;
};

}  // namespace weft
