#include "transport/sim/timeline.h"

#include <algorithm>
#include <limits>

namespace weft::sim {

Timeline::Timeline(const SimOptions& options)
    : options_(options),
      clock_(options.threads ? &steady_clock() : &virtual_clock_),
      generator_(options.seed) {}

int64_t Timeline::random(const SimRange& range) {
  const auto span = static_cast<uint64_t>(range.max_ns - range.min_ns);
  return range.min_ns + static_cast<int64_t>(random(span + 1));
}

int64_t Timeline::random_message_ns() {
  constexpr uint64_t kMillion = 1'000'000;
  int64_t delay_ns = random(options_.message);
  while (static_cast<double>(random(kMillion)) < options_.loss * kMillion)
    delay_ns += options_.retry_ns;
  return delay_ns;
}

void Timeline::at(int64_t due_ns, std::function<void()> act) {
  events_.push(Event{due_ns, added_++, std::move(act)});
  idle_step_ns_ = kFirstStepNs;
}

void Timeline::run_due() {
  while (!events_.empty() && events_.top().due_ns <= now()) {
    const std::function<void()> act = events_.top().act;
    events_.pop();
    act();
  }
}

void Timeline::advance(int64_t limit_ns) {
  int64_t target_ns = next_due();
  if (events_.empty()) {
    target_ns = now() + idle_step_ns_;
    idle_step_ns_ = std::min(2 * idle_step_ns_, kLastStepNs);
  }
  virtual_clock_.advance_to(std::min(target_ns, limit_ns));
}

int64_t Timeline::next_due() const {
  return events_.empty() ? std::numeric_limits<int64_t>::max() : events_.top().due_ns;
}

}  // namespace weft::sim
