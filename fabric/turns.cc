#include "fabric/turns.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "base/thread.h"
#include "fabric/error.h"

namespace weft {

// Shared with the thread, which may outlive Turns for a moment: where a task held the last handle
// of the group, Turns is destroyed on that very thread.
struct Turns::State {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> tasks;
  bool running = false;
  bool stopping = false;
  std::thread thread;

  // REQUIRES: the mutex is held.
  bool is_task() const { return thread.get_id() == std::this_thread::get_id(); }

  void run() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [this] { return stopping || !tasks.empty(); });
      if (tasks.empty()) return;
      run_first(lock);
    }
  }

  void run_first(std::unique_lock<std::mutex>& lock) {
    std::function<void()> task = std::move(tasks.front());
    tasks.pop_front();
    running = true;
    lock.unlock();
    task();
    task = nullptr;  // what it holds may be the last of its kind
    lock.lock();
    running = false;
    changed.notify_all();
  }
};

Turns::Turns() : state_(std::make_shared<State>()) {}

Turns::~Turns() {
  if (!here()) return;  // the thread's handle of the state is never dropped there
  std::unique_lock lock(state_->mutex);
  state_->stopping = true;
  state_->changed.notify_all();
  if (!state_->thread.joinable()) return;
  if (!state_->is_task()) {
    lock.unlock();
    state_->thread.join();
    return;
  }
  while (!state_->tasks.empty()) state_->run_first(lock);
  state_->thread.detach();
}

void Turns::give(std::function<void()> task) {
  {
    const std::lock_guard lock(state_->mutex);
    if (!state_->is_task()) {
      if (!state_->thread.joinable())
        state_->thread = value_or_throw(start_thread([state = state_] { state->run(); }));
      state_->tasks.push_back(std::move(task));
      return state_->changed.notify_all();
    }
  }
  task();
}

bool Turns::is_task() const {
  const std::lock_guard lock(state_->mutex);
  return state_->is_task();
}

void Turns::wait_idle() const {
  std::unique_lock lock(state_->mutex);
  if (state_->is_task()) return;
  state_->changed.wait(lock, [this] { return state_->tasks.empty() && !state_->running; });
}

bool Turns::idle() const {
  const std::lock_guard lock(state_->mutex);
  return state_->tasks.empty() && !state_->running;
}

}  // namespace weft
