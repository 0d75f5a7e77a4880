// Time and what is to happen in it: an event queue, in virtual or in real time.
#pragma once

#include <functional>
#include <queue>
#include <random>
#include <vector>

#include "transport/sim/sim.h"

namespace weft::sim {

class Timeline {
 public:
  explicit Timeline(const SimOptions& options);

  const Clock& clock() const { return *clock_; }
  int64_t now() const { return clock_->now_ns(); }

  // A number from the seed, < bound.
  uint64_t random(uint64_t bound) { return generator_() % bound; }
  int64_t random(const SimRange& range);
  // How long a message takes, with the tries that fail.
  int64_t random_message_ns();

  // Events of equal time happen in the order in which they were added.
  void at(int64_t due_ns, std::function<void()> act);
  // Lets happen what is due.
  void run_due();
  // Virtual time only: goes to the next event or the limit, whichever is first. Without an event
  // time goes on in growing steps, because somebody who is not waiting may still act at any moment.
  void advance(int64_t limit_ns);
  // When the next event is due; the maximum where there is none.
  int64_t next_due() const;

 private:
  struct Event {
    int64_t due_ns;
    uint64_t number;
    std::function<void()> act;
    bool operator<(const Event& other) const {  // for a queue that gives the greatest first
      return due_ns != other.due_ns ? due_ns > other.due_ns : number > other.number;
    }
  };

  static constexpr int64_t kFirstStepNs = 10'000;
  static constexpr int64_t kLastStepNs = 1'000'000'000;

  const SimOptions options_;
  ManualClock virtual_clock_;
  const Clock* const clock_;
  std::mt19937_64 generator_;
  std::priority_queue<Event> events_;
  uint64_t added_ = 0;
  int64_t idle_step_ns_ = kFirstStepNs;
};

}  // namespace weft::sim
