// A thread that does a step again and again: the engine has one that moves asynchronous calls along
// while there are any.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "base/origin_process.h"
#include "base/status.h"

namespace weft {

class ProgressThread {
 public:
  // How soon there is more to do; nullopt: when somebody says so.
  using Pause = std::optional<std::chrono::microseconds>;
  // `step` does some work; it is called on the thread, after the pause that it asked for, and after
  // every kick().
  static Result<std::unique_ptr<ProgressThread>> start(std::function<Pause()> step);
  // Lets a step that is running end. In a forked child, which has no such thread, it does nothing:
  // joining it would last for ever, and so might destroying what it waits for.
  ~ProgressThread();
  void kick();

 private:
  struct State;
  ProgressThread();

  const OriginProcess process_;
  std::unique_ptr<State> state_;
};

}  // namespace weft
