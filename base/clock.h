// Time, as a seam: everything that waits reads a Clock, so that simulations can run on virtual
// time.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>

namespace weft {

inline constexpr int64_t kMillisecond = 1'000'000;  // in nanoseconds

// Something that tells the time.
class Clock {
 public:
  virtual ~Clock() = default;
  // Nanoseconds since some moment.
  virtual int64_t now_ns() const = 0;
};

// The machine's monotonic clock; one object, without state.
const Clock& steady_clock();

// A clock that stands still until it is moved, never backwards.
class ManualClock final : public Clock {
 public:
  // As of the last move.
  int64_t now_ns() const override { return now_ns_; }
  void advance_to(int64_t ns) {
    if (ns > now_ns_) now_ns_ = ns;
  }

 private:
  int64_t now_ns_ = 0;
};

// A moment after which waiting is an error. The default never comes.
class Deadline {
 public:
  // Never, or so many seconds from now.
  Deadline() = default;
  static Deadline after(double seconds, const Clock& clock = steady_clock());
  // The same, but passed as soon as `cancelled` says so, which any thread may set and which has to
  // outlive the deadline. Who waits by left_ms() sees it within 20 ms.
  Deadline unless(const std::atomic<bool>& cancelled) const;
  // The same, but passed so many seconds from now at the latest.
  Deadline at_most(double seconds) const;

  // Whether it has passed.
  bool expired() const { return cancelled() || (clock_ && clock_->now_ns() >= at_ns_); }
  // Whether that is because nobody wants to wait any more.
  bool cancelled() const { return cancelled_ && cancelled_->load(std::memory_order_acquire); }
  // Whether it never passes, not by being cancelled either.
  bool never() const { return !clock_ && !cancelled_; }
  // REQUIRES: both go by the same clock.
  bool sooner_than(const Deadline& other) const { return at_ns_ < other.at_ns_; }
  // Nanoseconds left, 0 when expired, the maximum when it never comes.
  int64_t left_ns() const;
  int left_ms(int at_most_ms) const;  // for poll(2) and friends; rounded up

 private:
  const std::atomic<bool>* cancelled_ = nullptr;  // null: it cannot be
  const Clock* clock_ = nullptr;
  int64_t at_ns_ = std::numeric_limits<int64_t>::max();
};

}  // namespace weft
