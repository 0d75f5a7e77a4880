// State of the process, where there is no other place for it: handles of the C interface, and
// objects that the process's ranks find of each other. Never destroyed: threads may outlive main().
#pragma once

#include <pthread.h>

#include <mutex>

namespace weft {

// The process's T, for this thread alone while this lives. No fork happens meanwhile, so that a
// child finds it whole and free, whatever other threads of its parent were doing.
// REQUIRES: held briefly; the thread does not fork.
template <typename T>
class ProcessWide {
 public:
  T* operator->() { return &kept_->value; }

 private:
  struct Kept {
    std::mutex mutex;
    T value;
  };

  static Kept* kept_across_forks() {
    (void)::pthread_atfork([] { kept_->mutex.lock(); }, [] { kept_->mutex.unlock(); },
                           [] { kept_->mutex.unlock(); });
    return new Kept;
  }

  // Made before main(): a child of a fork while another thread made it would wait for that.
  inline static Kept* const kept_ = kept_across_forks();
  const std::lock_guard<std::mutex> lock_{kept_->mutex};
};

}  // namespace weft
