// Future: the result of calls that go on beside the caller.
#pragma once

#include <functional>
#include <utility>

namespace weft {

// A handle; copies mean the same result. Dropping it neither waits nor cancels: the memory that the
// calls read and write must stay until they are done.
template <class T>
class Future {
 public:
  // Nothing.
  Future() = default;
  Future(std::function<bool()> done, std::function<T()> get)
      : done_(std::move(done)), get_(std::move(get)) {}

  // Whether get() would return at once.
  bool done() const { return done_(); }
  // Waits, and gives the value or throws what the calls threw.
  T get() const { return get_(); }

 private:
  std::function<bool()> done_;
  std::function<T()> get_;
};

}  // namespace weft
