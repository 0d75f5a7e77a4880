// Whether what other ranks read next is written into the caches or past them, to memory.
//
// Which is faster depends on the machine and the moment. Lines that one core has written and
// another asks for come one by one: at 8 GB/s between cores of a Zen 4 that share an L3 cache, at 2
// GB/s between others. Past the caches it is 10 to 20 GB/s wherever the cores are, less than a
// quiet cache gives near ones. In virtual machines cores move within seconds. So every plan tries:
// now and then, some turns of its first lane are done both ways, by all ranks in the same turns.
// Who writes does not pay for what is slow to read, so ranks tell each other what a turn took them
// either way (of moving data, until others see them, but not of waiting for others), and go by who
// took longest. They need not agree; the data are the same.
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
  static constexpr uint64_t kBeforeMost = 64;          // turns

  struct Turn {
    bool streams = false;  // past the caches
    bool timed = false;
    uint64_t ticks = 0;  // spent on moving data, where timed
    size_t bytes = 0;
  };

  // Of a plan's turns.
  struct Turns {
    // Until a trial begins, kBeforeMost at most: the first ones find pages that this rank has not
    // touched yet.
    uint64_t before = 0;
    // That are done in a way before others are timed: as long as it takes to come round in a window
    // or a link, turns find lines as the other way has left them.
    uint64_t untimed = 0;
    uint64_t bytes = 0;  // that each moves
  };

  explicit StoreTrial(const Turns& turns)
      : before_(std::min(turns.before, kBeforeMost)),
        untimed_(std::min(turns.untimed, kUntimedMost)),
        period_(std::max(kPeriodLeast, kPeriodBytes / std::max<uint64_t>(turns.bytes, 1))) {}

  uint64_t period() const { return period_; }  // turns

  // The next turn of a lane, which counts its turns over all calls of the plan.
  Turn begin(uint64_t number) const {
    const uint64_t at = number % period_ - before_;  // huge before the trial
    if (at >= 2 * turns()) return {.streams = streams_};
    return {.streams = at >= turns(), .timed = at % turns() >= untimed_};
  }

  // Ticks of a turn into the caches, and past them; 0 where nothing was moved.
  struct Costs {
    double way[2] = {0, 0};

    // As if both ranks were one that takes as long as the slower.
    void add(const Costs& other) {
      for (int k : {0, 1}) way[k] = std::max(way[k], other.way[k]);
    }
  };

  // What begin() gave for `number`, done. True with the last turn of a trial: it is undecided until
  // decide().
  bool end(const Turn& turn, uint64_t number) {
    if (turn.timed && turn.bytes > 0) {
      double& least = least_[turn.streams ? 1 : 0];
      least = std::min(least, static_cast<double>(turn.ticks) / static_cast<double>(turn.bytes));
      bytes_ = std::max(bytes_, turn.bytes);
    }
    const bool last = number % period_ == before_ + 2 * turns() - 1;
    if (last) patience_ = kPatience;
    return last;
  }

  // What this rank has found in the trial at hand, or the last one.
  Costs costs() const {
    Costs result;
    for (int k : {0, 1})
      if (least_[k] != kNone) result.way[k] = least_[k] * static_cast<double>(bytes_);
    return result;
  }

  bool undecided() const { return patience_ > 0; }
  // Whether to wait one more turn for what others have found.
  bool waits() { return --patience_ > 0; }
  void decide(const Costs& found) {
    patience_ = 0;
    least_[0] = least_[1] = kNone;
    bytes_ = 0;
    if (found.way[0] <= 0 || found.way[1] <= 0) return;
    for (int k : {0, 1}) mean_[k] = mean_[k] > 0 ? (mean_[k] + found.way[k]) / 2 : found.way[k];
    if (mean_[streams_ ? 0 : 1] < kClearly * mean_[streams_ ? 1 : 0]) streams_ = !streams_;
  }

 private:
  static constexpr uint64_t kUntimedMost = 64;  // a trial is a small part of a period
  static constexpr int kPatience = 512;         // turns; ranks may be as far apart as leases go
  // What the other way has to take of what this one takes. Where the ways differ, it is by a half
  // or twice, and a trial of a few turns of one rank may be a few per cent wrong: over links, no
  // rank knows what its stores cost those that read.
  static constexpr double kClearly = 0.85;
  static constexpr double kNone = std::numeric_limits<double>::max();

  uint64_t turns() const { return untimed_ + kTimed; }  // of a way in a trial

  uint64_t before_, untimed_, period_;
  // By way, into the caches and past them: ticks per byte of this trial's least turn, for others
  // may have been interrupted, and ticks of a turn in the last trials.
  double least_[2] = {kNone, kNone};
  double mean_[2] = {0, 0};
  size_t bytes_ = 0;  // of this trial's largest turn
  int patience_ = 0;
  bool streams_ = false;
};

}  // namespace weft
