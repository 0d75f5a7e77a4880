// epoll, edge-triggered, and a way to end its sleep from another thread.
#pragma once

#include <memory>
#include <vector>

#include "base/fd.h"
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
  // For input, output and the end of the stream, from now on for this pollable and no other one;
  // what is ready already is reported, too. Closing the descriptor removes it.
  Status add(const Fd& fd, Pollable& pollable);
  // Calls ready() for all that is ready; sleeps until something is, at most so long.
  void run(int timeout_ms);
  // Ends a run(), from any thread; before a run() it ends the next one.
  void wake();
  // Destroys an object at the next run(), when no event and no caller refers to it any more.
  void bury(std::unique_ptr<Pollable> object) { graveyard_.push_back(std::move(object)); }

 private:
  Fd epoll_;
  Fd wake_;
  std::vector<std::unique_ptr<Pollable>> graveyard_;
};

}  // namespace weft::tcp
