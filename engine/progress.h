// The only thread that weft makes: it moves asynchronous calls along while there are any.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "base/status.h"

namespace weft {

class ProgressThread {
 public:
  // `step` does some work and says whether there is more; it is called on the thread, again and
  // again while it says so, and after every kick().
  static Result<std::unique_ptr<ProgressThread>> start(std::function<bool()> step);
  ~ProgressThread();  // lets a step that is running end
  void kick();

 private:
  explicit ProgressThread(std::function<bool()> step) : step_(std::move(step)) {}
  void loop();

  std::function<bool()> step_;
  std::mutex mutex_;
  std::condition_variable wanted_;
  bool kicked_ = false, stopping_ = false;
  std::thread thread_;
};

}  // namespace weft
