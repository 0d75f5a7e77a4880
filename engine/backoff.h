// What a thread does between polls that found nothing: spin, then yield, then sleep.
#pragma once

#include <sched.h>

#include <algorithm>

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

// What a thread waits for, where it knows.
struct Waiting {
  Rank whom = -1;          // where that is one rank
  bool needs_cpu = false;  // one that has to run before the call can end needs its CPU
};

class Backoff {
 public:
  // `crowded`: more ranks on this machine than CPUs that they may use; then spinning only keeps
  // peers from running, unless for one that runs meanwhile, and whoever found nothing in a few
  // turns is better woken than asked again. And where one of the same CPU is needed at all, to look
  // for others first is in vain, however soon they come. Else spin for long, a millisecond where a
  // pause takes 50 ns (Intel's since Skylake): to wake a core that has gone idle takes 40 us in a
  // virtual machine. But yield now and then, and sleep after all: two ranks that were started on
  // one core get in each other's way, and are told apart by the scheduler when it wakes one of
  // them.
  //
  // `several_media`: who sleeps on one of them does not hear the others for half a millisecond, so
  // where ranks are crowded, too, they give way to each other for longer, and look around
  // meanwhile: each turn may be as long as the others' computing.
  explicit Backoff(bool crowded, bool several_media = false)
      : crowded_(crowded),
        spins_(crowded ? 2 : 1000),
        yields_(crowded ? several_media ? 256 : 16 : 20),
        look_every_(crowded && several_media ? 16 : 128) {}

  void reset() { idle_ = spun_ = yielded_ = 0; }
  uint32_t idle() const { return idle_; }
  // Connections, deaths, notes and deadlines want a look: now and then, soon after going idle.
  bool look_around() const {
    return (idle_ & (look_every_ - 1)) == look_every_ / 4 || yielded_ >= yields_;
  }

  // `waiting`: looked at where ranks are crowded.
  void pause(Media& media, const Deadline& deadline, Waiting waiting = {}) {
    ++idle_;
    if (++spun_ <= patience(media, waiting)) return cpu_relax();
    spun_ = 0;
    if (crowded_) media.set_running(false);
    give_way(media, deadline);
    if (crowded_) media.set_running(true);
  }

  // For a rank that has a core, so many: what it is to send comes sooner than this rank would get
  // its own core back, a microsecond or two later.
  static constexpr uint32_t kSpinsForRunning = 24;

 private:
  uint32_t patience(const Media& media, Waiting waiting) const {
    if (crowded_ && waiting.needs_cpu) return 0;
    if (crowded_ && yielded_ < yields_ && media.running(waiting.whom)) return kSpinsForRunning;
    const bool spins = crowded_ ? yielded_ == 0 : yielded_ < yields_;
    return spins ? spins_ : 0;
  }

  void give_way(Media& media, const Deadline& deadline) {
    if (yielded_ < yields_) {
      ++yielded_;
      ::sched_yield();
      return;
    }
    constexpr double kNap = 0.001;
    const double left = static_cast<double>(deadline.left_ns()) * 1e-9;
    media.wait(Deadline::after(std::min(kNap, left), media.clock()));
  }

  const bool crowded_;
  const uint32_t spins_, yields_;
  const uint32_t look_every_;  // pauses; a power of 2
  uint32_t idle_ = 0;          // pauses
  uint32_t spun_ = 0;          // of them spent on spinning since the last yield or sleep
  uint32_t yielded_ = 0;       // and on yielding
};

}  // namespace weft
