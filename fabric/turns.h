// Turns: runs what a group does asynchronously, one after the other, on a thread of its own.
#pragma once

#include <functional>
#include <memory>

#include "base/origin_process.h"

namespace weft {

// The thread starts with the first task.
class Turns {
 public:
  Turns();
  // Runs all that was given to its end. In a forked child, which has no such thread, it does
  // nothing.
  ~Turns();
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  // Runs `task` after all that were given before; what a task itself gives runs at once, as part of
  // it. It must not throw. Throws Code::system where there is no thread for it.
  void give(std::function<void()> task);
  // Returns when all that was given has run; at once on the thread itself.
  void wait_idle() const;
  // Whether nothing is under way.
  bool idle() const;
  // Whether the caller is a task.
  bool is_task() const;
  // Whether this is no forked child of who made it: there nothing that was given ever ends.
  bool here() const { return process_.here(); }

 private:
  struct State;
  const OriginProcess process_;
  std::shared_ptr<State> state_;
};

}  // namespace weft
