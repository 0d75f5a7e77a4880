// Error: how the Fabric level reports a failure. Below it everything returns Status or Result.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include "base/status.h"

namespace weft {

// The one exception that weft throws: a Status that nobody has to check.
class Error : public std::runtime_error {
 public:
  // REQUIRES: !status.ok(). `of_another_rank`: all ranks of a call throw it, for one of them.
  explicit Error(const Status& status, bool of_another_rank = false)
      : std::runtime_error(status.to_string()),
        status_(status),
        of_another_rank_(of_another_rank) {}

  // What went wrong, as a value.
  const Status& status() const { return status_; }
  // Its kind, to tell failures apart.
  Code code() const { return status_.code(); }
  // Whether this rank did what it should, and another one of the call is to blame.
  bool is_of_another_rank() const { return of_another_rank_; }

 private:
  Status status_;
  bool of_another_rank_;
};

// Throws where the status is a failure.
inline void throw_if_failed(const Status& status) {
  if (!status.ok()) throw Error(status);
}

// The exception that is being handled, as a Status; of other types than Error with what it says,
// and `code`, but std::bad_alloc is Code::system. REQUIRES: called in a catch block.
Status caught(Code code = Code::aborted);

// The value, or the failure thrown.
template <class T>
T value_or_throw(Result<T> result) {
  throw_if_failed(result.status());
  return result.take();
}

// Throws Code::invalid_argument: the caller's mistake.
[[noreturn]] inline void throw_invalid(std::string message) {
  throw Error(invalid_argument(std::move(message)));
}

}  // namespace weft
