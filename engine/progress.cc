#include "engine/progress.h"

#include "base/thread.h"

namespace weft {

Result<std::unique_ptr<ProgressThread>> ProgressThread::start(std::function<bool()> step) {
  std::unique_ptr<ProgressThread> made(new ProgressThread(std::move(step)));
  Result<std::thread> thread = start_thread([progress = made.get()] { progress->loop(); });
  if (!thread.ok()) return thread.status();
  made->thread_ = thread.take();
  return made;
}

ProgressThread::~ProgressThread() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wanted_.notify_one();
  if (thread_.joinable()) thread_.join();
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
