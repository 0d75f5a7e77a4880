#include "fabric/turns.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

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

  void run() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [this] { return stopping || !tasks.empty(); });
      if (stopping) return;
      std::function<void()> task = std::move(tasks.front());
      tasks.pop_front();
      running = true;
      lock.unlock();
      task();
      task = nullptr;
      lock.lock();
      running = false;
      changed.notify_all();
    }
  }
};

Turns::Turns() : state_(std::make_shared<State>()) {}

Turns::~Turns() {
  std::deque<std::function<void()>> dropped;
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
    dropped.swap(state_->tasks);
    state_->changed.notify_all();
  }
  if (!state_->thread.joinable()) return;
  if (state_->thread.get_id() == std::this_thread::get_id())
    state_->thread.detach();
  else
    state_->thread.join();
}

void Turns::give(std::function<void()> task) {
  const std::lock_guard lock(state_->mutex);
  state_->tasks.push_back(std::move(task));
  if (!state_->thread.joinable()) state_->thread = std::thread([state = state_] { state->run(); });
  state_->changed.notify_all();
}

void Turns::wait_idle() const {
  std::unique_lock lock(state_->mutex);
  if (state_->thread.get_id() == std::this_thread::get_id()) return;
  state_->changed.wait(lock, [this] { return state_->tasks.empty() && !state_->running; });
}

bool Turns::idle() const {
  const std::lock_guard lock(state_->mutex);
  return state_->tasks.empty() && !state_->running;
}

}  // namespace weft
