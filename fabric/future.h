// Future: the result of calls that go on beside the caller.
#pragma once

#include <functional>
#include <utility>

#include "fabric/error.h"

namespace weft {

// A handle; copies mean the same result. Dropping it neither waits nor cancels: the memory that the
// calls read and write must stay until they are done, and an error that nobody gets is lost, unless
// it has failed the group.
template <class T>
class Future {
 public:
  // Of no call: done() and get() throw.
  Future() = default;
  Future(std::function<bool()> done, std::function<T()> get)
      : done_(std::move(done)), get_(std::move(get)) {}

  // Whether get() would return at once.
  bool done() const {
    require_call();
    return done_();
  }
  // Waits, and gives the value or throws what the calls threw.
  T get() const {
    require_call();
    return get_();
  }

 private:
  void require_call() const {
    if (!get_) throw_invalid("this Future is of no call; take one that async() or isend() gives.");
  }

  std::function<bool()> done_;
  std::function<T()> get_;
};

}  // namespace weft
