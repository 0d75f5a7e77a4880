// Future: the result of calls that go on beside the caller.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <utility>

#include "fabric/error.h"

namespace weft {

// A handle; copies mean the same result. Dropping it neither waits nor cancels: the memory that the
// calls read and write must stay until they are done, and an error that nobody gets is lost, unless
// it has failed the group. Where an exception destroys the last copy, which is about to destroy
// what was declared before it, too, that waits for the calls: ten seconds, then the group is
// aborted.
template <class T>
class Future {
 public:
  // Of no call: done() and get() throw.
  Future() = default;
  // `end_calls` returns when the calls touch nothing any more; none where they touch only what they
  // keep themselves.
  Future(std::function<bool()> done, std::function<T()> get, std::function<void()> end_calls = {})
      : done_(std::move(done)),
        get_(std::move(get)),
        unwinding_(std::make_shared<Unwinding>(std::move(end_calls))) {}

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

  // Shared by all copies.
  class Unwinding {
   public:
    explicit Unwinding(std::function<void()> end_calls) : end_calls_(std::move(end_calls)) {}
    ~Unwinding() {
      if (end_calls_ && std::uncaught_exceptions() > exceptions_) end_calls_();
    }
    Unwinding(const Unwinding&) = delete;
    Unwinding& operator=(const Unwinding&) = delete;

   private:
    const int exceptions_ = std::uncaught_exceptions();  // others than those that pass by later
    std::function<void()> end_calls_;
  };

  std::function<bool()> done_;
  std::function<T()> get_;
  std::shared_ptr<Unwinding> unwinding_;
};

}  // namespace weft
