// DriverLock: the right to drive a communicator's media. Who has a call under way holds it until
// that call has ended, which may be long; but while the call is blocked, visitors are let in:
// threads that need the right for a moment, and not for a call.
//
// A visitor's turn is not a gap in which anybody may take the lock: the holder keeps it, does
// nothing until the visitors have left, and finds its call as it was.
//
// Nearly everybody tries, and does something else where that fails; small calls do so every 0.1 us.
// So to take a free lock costs one atomic exchange, and to free it a store: nobody is told, and who
// wants it for certain looks every 50 us.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>

#include "base/origin_process.h"

namespace weft {

class DriverLock {
 public:
  DriverLock() = default;
  // In a forked child the condition is left as it is: threads of the parent that waited for it are
  // not there to leave it, and destroying it would wait for them.
  ~DriverLock() {
    if (!process_.here()) static_cast<void>(changed_.release());
  }
  DriverLock(const DriverLock&) = delete;
  DriverLock& operator=(const DriverLock&) = delete;

  // To drive.
  void lock();
  bool try_lock() {
    return !held_.load(std::memory_order_relaxed) &&
           !held_.exchange(true, std::memory_order_acquire);
  }
  void unlock() { held_.store(false, std::memory_order_release); }
  // The same, unless `given_up` says first that waiting has no use any more.
  std::unique_lock<DriverLock> lock_unless(const std::function<bool()>& given_up);

  // Whoever waits to visit has its turn, one after the other. Costs a load where nobody does.
  // REQUIRES: the caller drives, and what it drives is whole.
  void let_in() {
    if (waiting_.load(std::memory_order_relaxed) > 0) receive();
  }

 private:
  friend class Visit;
  void receive();

  std::atomic<bool> held_{false};  // by whoever drives
  std::mutex door_;                // guards what follows; who holds it only tries to drive
  const OriginProcess process_;
  std::unique_ptr<std::condition_variable> changed_ = std::make_unique<std::condition_variable>();
  std::atomic<int> waiting_{0};  // visitors outside
  int turns_ = 0;                // so many of them may come in; the holder waits meanwhile
  bool inside_ = false;          // one of them is
};

// A turn with what a DriverLock is for, while its holder waits or where there is none. Meant to be
// short: no call moves meanwhile.
class Visit {
 public:
  explicit Visit(DriverLock& lock) : lock_(lock) { enter({}); }
  // `entered()` is false where `given_up` said first that waiting has no use any more.
  Visit(DriverLock& lock, const std::function<bool()>& given_up) : lock_(lock) { enter(given_up); }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;
  ~Visit() { leave(); }

  bool entered() const { return as_ != As::nobody; }
  // Leaves, lets others have theirs, and comes in again. REQUIRES: entered().
  void give_turn();

 private:
  enum class As { nobody, guest, holder };

  void enter(const std::function<bool()>& given_up);
  void leave();

  DriverLock& lock_;
  As as_ = As::nobody;
};

}  // namespace weft
