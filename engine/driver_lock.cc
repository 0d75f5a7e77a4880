#include "engine/driver_lock.h"

#include <chrono>
#include <thread>
#include <utility>

namespace weft {
namespace {

constexpr std::chrono::microseconds kRest{50};

}  // namespace

void DriverLock::lock() {
  (void)lock_unless([] { return false; }).release();
}

std::unique_lock<DriverLock> DriverLock::lock_unless(const std::function<bool()>& given_up) {
  std::unique_lock lock(*this, std::try_to_lock);
  while (!lock.owns_lock() && !given_up()) {
    std::this_thread::sleep_for(kRest);
    (void)lock.try_lock();
  }
  return lock;
}

void DriverLock::receive() {
  std::unique_lock door(door_);
  turns_ = waiting_;
  changed_->notify_all();
  changed_->wait(door, [this] { return !inside_ && (turns_ == 0 || waiting_ == 0); });
  turns_ = 0;
}

void Visit::enter(const std::function<bool()>& given_up) {
  std::unique_lock door(lock_.door_);
  ++lock_.waiting_;
  for (;;) {
    if (lock_.turns_ > 0 && !lock_.inside_) {
      --lock_.turns_;
      lock_.inside_ = true;
      as_ = As::guest;
      break;
    }
    if (lock_.try_lock()) {
      as_ = As::holder;
      break;
    }
    if (given_up && given_up()) break;
    lock_.changed_->wait_for(door, kRest);
  }
  --lock_.waiting_;
  door.unlock();
  lock_.changed_->notify_all();  // the holder may wait for one that has given up
}

void Visit::leave() {
  switch (std::exchange(as_, As::nobody)) {
    case As::nobody: return;
    case As::holder: return lock_.unlock();
    case As::guest: break;
  }
  {
    const std::lock_guard door(lock_.door_);
    lock_.inside_ = false;
  }
  lock_.changed_->notify_all();
}

void Visit::give_turn() {
  if (as_ == As::holder) {
    lock_.let_in();
    leave();
    std::this_thread::sleep_for(kRest);  // who waits to drive needs a moment to take a free lock
  }
  leave();
  enter({});
}

}  // namespace weft
