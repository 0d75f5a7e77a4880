#include "engine/work.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace weft {

void WorkState::complete(Status status) {
  status_ = std::move(status);
  done_.store(true, std::memory_order_release);
  done_.notify_all();
}

void WorkState::wait(const Deadline& deadline) const {
  if (deadline.never()) return done_.wait(false, std::memory_order_acquire);
  // std::atomic has no timed wait; the nap grows so that long waits cost little.
  auto nap = std::chrono::microseconds(1);
  while (!done() && !deadline.expired()) {
    std::this_thread::sleep_for(nap);
    nap = std::min(nap * 2, std::chrono::microseconds(500));
  }
}

Work Work::failed(Status status) {
  auto state = std::make_shared<WorkState>();
  state->complete(std::move(status));
  return Work(std::move(state));
}

Status Work::wait(const Deadline& deadline) const {
  if (!state_) return {};
  state_->wait(deadline);
  if (!state_->done())
    return Status(Code::timeout, "the call has not ended yet; it goes on until its own deadline");
  return state_->status();
}

}  // namespace weft
