// Whether what other ranks read next is written into the caches or past them, to memory.
//
// Which is faster depends on the machine and the moment. Lines that one core has written and
// another asks for come one by one: at 8 GB/s between cores of a Zen 4 that share an L3 cache, at 2
// GB/s between others. Past the caches it is 10 to 20 GB/s wherever the cores are, less than a
// quiet cache gives near ones. In virtual machines cores move within seconds. So every plan tries:
// now and then, some turns of its first lane are done both ways, by all ranks in the same turns,
// and the way that took less time (of moving data, not of waiting) serves the others. Ranks need
// not agree; the data are the same.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "base/ticks.h"

namespace weft {

class StoreTrial {
 public:
  static constexpr uint64_t kPeriodBytes = 256 << 20;  // from one trial to the next
  static constexpr uint64_t kPeriodLeast = 2048;       // turns
  static constexpr uint64_t kTimed = 4;                // turns of a way
  // Turns before a trial: those of a plan's first calls find pages that nobody has touched yet.
  static constexpr uint64_t kBefore = 64;

  struct Turn {
    bool streams = false;  // past the caches
    bool timed = false;
    uint64_t ticks = 0;  // spent on moving data, where timed
    size_t bytes = 0;
  };

  // Before those of a way are timed, `untimed` turns are done so: as long as it takes to come round
  // in a window or a link, turns find lines as the other way has left them. A turn moves `bytes`.
  StoreTrial(uint64_t untimed, uint64_t bytes)
      : untimed_(std::min(untimed, kUntimedMost)),
        period_(std::max(kPeriodLeast, kPeriodBytes / std::max<uint64_t>(bytes, 1))) {}

  uint64_t period() const { return period_; }  // turns

  // The next turn of a lane, which counts its turns over all calls of the plan.
  Turn begin(uint64_t number) const {
    const uint64_t at = number % period_ - kBefore;  // huge before the trial
    if (at >= 2 * turns()) return {.streams = streams_};
    return {.streams = at >= turns(), .timed = at % turns() >= untimed_};
  }

  // What begin() gave for `number`, done.
  void end(const Turn& turn, uint64_t number) {
    if (!turn.timed || turn.bytes == 0) return;
    Way& way = ways_[turn.streams ? 1 : 0];
    way.least =
        std::min(way.least, static_cast<double>(turn.ticks) / static_cast<double>(turn.bytes));
    if (number % period_ == kBefore + 2 * turns() - 1) decide();
  }

 private:
  static constexpr uint64_t kUntimedMost = 64;  // a trial is a small part of a period
  static constexpr double kNone = std::numeric_limits<double>::max();
  struct Way {
    double least = kNone;  // of this trial's turns, ticks per byte: others were interrupted
    double mean = kNone;   // of the last trials
  };

  uint64_t turns() const { return untimed_ + kTimed; }  // of a way in a trial

  void decide() {
    if (ways_[0].least == kNone || ways_[1].least == kNone) return;
    for (Way& way : ways_) {
      way.mean = way.mean == kNone ? way.least : (way.mean + way.least) / 2;
      way.least = kNone;
    }
    streams_ = ways_[1].mean < ways_[0].mean;
  }

  uint64_t untimed_, period_;
  Way ways_[2];
  bool streams_ = false;
};

}  // namespace weft
