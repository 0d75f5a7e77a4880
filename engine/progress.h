// The only thread that weft makes: it moves asynchronous calls along while there are any.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/status.h"

namespace weft {

class ProgressThread {
 public:
  // How soon there is more to do; nullopt: when somebody says so.
  using Pause = std::optional<std::chrono::microseconds>;
  // `step` does some work; it is called on the thread, after the pause that it asked for, and after
  // every kick().
  static Result<std::unique_ptr<ProgressThread>> start(std::function<Pause()> step);
  ~ProgressThread();  // lets a step that is running end
  void kick();

 private:
  explicit ProgressThread(std::function<Pause()> step) : step_(std::move(step)) {}
  void loop();

  std::function<Pause()> step_;
  std::mutex mutex_;
  std::condition_variable wanted_;
  bool kicked_ = false, stopping_ = false;
  std::thread thread_;
};

}  // namespace weft
