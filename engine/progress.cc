#include "engine/progress.h"

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "base/thread.h"

namespace weft {

struct ProgressThread::State {
  std::function<Pause()> step;
  std::mutex mutex;
  std::condition_variable wanted;
  bool kicked = false, stopping = false;
  std::thread thread;

  void loop() {
    const auto called = [this] { return kicked || stopping; };
    Pause pause;
    std::unique_lock lock(mutex);
    while (!stopping) {
      if (!pause)
        wanted.wait(lock, called);
      else if (pause->count() > 0)
        wanted.wait_for(lock, *pause, called);
      if (stopping) return;
      kicked = false;
      lock.unlock();
      pause = step();
      lock.lock();
    }
  }
};

ProgressThread::ProgressThread() : state_(std::make_unique<State>()) {}

Result<std::unique_ptr<ProgressThread>> ProgressThread::start(std::function<Pause()> step) {
  std::unique_ptr<ProgressThread> made(new ProgressThread);
  made->state_->step = std::move(step);
  Result<std::thread> thread = start_thread([state = made->state_.get()] { state->loop(); });
  if (!thread.ok()) return thread.status();
  made->state_->thread = thread.take();
  return made;
}

ProgressThread::~ProgressThread() {
  if (!process_.here()) {
    static_cast<void>(state_.release());
    return;
  }
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->wanted.notify_one();
  if (state_->thread.joinable()) state_->thread.join();
}

void ProgressThread::kick() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->kicked = true;
  }
  state_->wanted.notify_one();
}

}  // namespace weft
