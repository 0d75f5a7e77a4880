#include "engine/progress.h"

#include "base/thread.h"

namespace weft {

Result<std::unique_ptr<ProgressThread>> ProgressThread::start(std::function<Pause()> step) {
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
  const auto wanted = [this] { return kicked_ || stopping_; };
  Pause pause;
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (!pause)
      wanted_.wait(lock, wanted);
    else if (pause->count() > 0)
      wanted_.wait_for(lock, *pause, wanted);
    if (stopping_) return;
    kicked_ = false;
    lock.unlock();
    pause = step_();
    lock.lock();
  }
}

}  // namespace weft
