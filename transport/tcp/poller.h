// epoll, edge-triggered, and a way to end its sleep from another thread.
#pragma once

#include <memory>
#include <vector>

#include "base/fd.h"
#include "base/origin_process.h"
#include "base/status.h"

namespace weft::tcp {

// What waits for a descriptor. It may close its descriptor or be buried while events for it are
// under way, so ready() must do nothing where it has no descriptor any more.
class Pollable {
 public:
  virtual ~Pollable() = default;
  virtual void ready(uint32_t events) = 0;
};

class Poller {
 public:
  Status open();
  // Calls ready() for all that is ready; sleeps until something is, at most so long.
  void run(int timeout_ms);
  // Ends a run(), from any thread; before a run() it ends the next one.
  void wake();
  // Destroys an object at the next run(), when no event and no caller refers to it any more.
  void bury(std::unique_ptr<Pollable> object) { graveyard_.push_back(std::move(object)); }
  // Whether this is no forked child, which has the same epoll set as its parent.
  bool here() const { return process_.here(); }

 private:
  friend class WatchedFd;

  const OriginProcess process_;
  Fd epoll_;
  Fd wake_;
  std::vector<std::unique_ptr<Pollable>> graveyard_;
};

// A descriptor that a pollable is told about, and the only way out of the poller: closing alone
// does not remove it where a forked child holds a copy. Destroyed in such a child, it is only
// closed.
class WatchedFd {
 public:
  explicit WatchedFd(Poller& poller) : poller_(poller) {}
  ~WatchedFd() {
    if (poller_.here()) reset();
  }
  WatchedFd(const WatchedFd&) = delete;
  WatchedFd& operator=(const WatchedFd&) = delete;

  // For input, output and the end of the stream; what is ready already is reported, too.
  Status watch(Fd fd, Pollable& pollable);
  // Unwatched.
  Fd take();
  void reset() { take(); }

  const Fd& fd() const { return fd_; }
  int get() const { return fd_.get(); }
  bool valid() const { return fd_.valid(); }

 private:
  Poller& poller_;
  Fd fd_;
};

}  // namespace weft::tcp
