#include "engine/progress.h"

namespace weft {

ProgressThread::ProgressThread(std::function<bool()> step)
    : step_(std::move(step)), thread_([this] { loop(); }) {}

ProgressThread::~ProgressThread() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wanted_.notify_one();
  thread_.join();
}

void ProgressThread::kick() {
  {
    const std::lock_guard lock(mutex_);
    kicked_ = true;
  }
  wanted_.notify_one();
}

void ProgressThread::loop() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (!kicked_) {
      wanted_.wait(lock, [this] { return kicked_ || stopping_; });
      continue;
    }
    kicked_ = false;
    lock.unlock();
    const bool more = step_();
    lock.lock();
    kicked_ |= more;
  }
}

}  // namespace weft
