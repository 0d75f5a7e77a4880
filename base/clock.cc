#include "base/clock.h"

#include <algorithm>
#include <chrono>

namespace weft {
namespace {

class SteadyClock final : public Clock {
 public:
  int64_t now_ns() const override {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
};

// Never destroyed: threads outlive statics.
union Kept {
  constexpr Kept() : clock() {}
  ~Kept() {}
  SteadyClock clock;
};

// There before any thread is: a child of a fork while another thread made it would wait for that.
constinit Kept kept;

}  // namespace

const Clock& steady_clock() { return kept.clock; }

Deadline Deadline::after(double seconds, const Clock& clock) {
  constexpr double kNever = 3e8;  // ten years
  Deadline deadline;
  if (seconds >= kNever) return deadline;
  deadline.clock_ = &clock;
  deadline.at_ns_ = clock.now_ns() + static_cast<int64_t>(seconds * 1e9);
  return deadline;
}

Deadline Deadline::unless(const std::atomic<bool>& cancelled) const {
  Deadline deadline = *this;
  deadline.cancelled_ = &cancelled;
  return deadline;
}

Deadline Deadline::at_most(double seconds) const {
  const Deadline latest = after(seconds, clock_ ? *clock_ : steady_clock());
  if (!latest.sooner_than(*this)) return *this;
  return cancelled_ ? latest.unless(*cancelled_) : latest;
}

int64_t Deadline::left_ns() const {
  if (cancelled()) return 0;
  if (!clock_) return std::numeric_limits<int64_t>::max();
  return std::max<int64_t>(0, at_ns_ - clock_->now_ns());
}

int Deadline::left_ms(int at_most_ms) const {
  constexpr int kLook = 20;  // how long who waits may overlook that it was cancelled
  if (cancelled_) at_most_ms = std::min(at_most_ms, kLook);
  const int64_t left = left_ns();
  if (left >= int64_t{at_most_ms} * 1'000'000) return at_most_ms;
  return static_cast<int>((left + 999'999) / 1'000'000);
}

}  // namespace weft
