// Work: a call that was started and will end.
#pragma once

#include <atomic>
#include <memory>

#include "base/clock.h"
#include "base/status.h"

namespace weft {

// What a Work and whoever completes it share.
class WorkState {
 public:
  // Whether complete() was called.
  bool done() const { return done_.load(std::memory_order_acquire); }
  // Sleeps until done or the deadline.
  void wait(const Deadline& deadline) const;
  // REQUIRES: done().
  const Status& status() const { return status_; }
  // Once.
  void complete(Status status);

 private:
  mutable std::atomic<bool> done_{false};
  Status status_;
};

// A handle; copies mean the same work. The memory of the call must outlive the work, not the
// handle.
class Work {
 public:
  // Nothing: already done, ok; or what is completed elsewhere.
  Work() = default;
  explicit Work(std::shared_ptr<WorkState> state) : state_(std::move(state)) {}
  // One that has ended with this status.
  static Work failed(Status status);

  // Blocks until the call has ended and gives its status; Code::timeout when the deadline passes
  // first (the call goes on; its own deadline is the communicator's).
  Status wait(const Deadline& deadline = {}) const;
  bool test() const { return !state_ || state_->done(); }
  // ok while it runs.
  Status error() const { return state_ && state_->done() ? state_->status() : Status(); }

 private:
  std::shared_ptr<WorkState> state_;
};

}  // namespace weft
