// Status and Result: how every fallible call of weft reports what went wrong.
//
// A Status is a code, a complete sentence for people, and, where one is to blame, the peer's rank.
// Success costs one null pointer. A function that returns one of these throws nothing but
// std::bad_alloc, and the engine's entries not even that.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace weft {

// What kind of failure.
enum class Code : uint8_t {
  ok,                // none
  invalid_argument,  // the caller's mistake; the message names the argument, the value and the
                     // remedy
  mismatch,          // ranks disagree about which collective or which arguments
  unsupported,       // right, but not possible here; the message says why
  timeout,           // a deadline passed; the message says who was waited for
  peer_lost,         // a peer died or closed; peer() names it
  aborted,           // this rank or another one called abort
  system,            // the operating system refused
  internal,          // a bug in weft
};

// "peer lost" and so on.
std::string_view name(Code code);

// See the top of this file.
class [[nodiscard]] Status {
 public:
  // ok, or a failure with its sentence and the peer to blame.
  Status() = default;
  Status(Code code, std::string message, int peer = -1);

  // What there is to know of it.
  bool ok() const { return rep_ == nullptr; }
  Code code() const { return rep_ ? rep_->code : Code::ok; }
  std::string_view message() const { return rep_ ? std::string_view(rep_->message) : "ok"; }
  int peer() const { return rep_ ? rep_->peer : -1; }  // -1 where no peer is to blame

  // The same failure with `where` in front: context is added on the way up, never lost.
  Status within(std::string_view where) const;
  std::string to_string() const;  // "timeout: rank 3 did not ..."

 private:
  struct Rep {
    Code code;
    std::string message;
    int peer;
  };
  std::shared_ptr<const Rep> rep_;
};

// Failures of these codes, with their message.
Status invalid_argument(std::string message);
Status unsupported(std::string message);
Status internal_error(std::string message);
// "bind 10.0.0.1:80: Permission denied", from errno as it is now; which limit to raise where
// descriptors have run out.
Status system_error(std::string_view what);

// A value, or why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  // Made of a value, or of a failure.
  Result(T value) : value_(std::move(value)) {}  // NOLINT: implicit, so that `return x;` works
  Result(Status status) : status_(std::move(status)) {}  // NOLINT: REQUIRES: !status.ok()

  // Whether there is a value; else status() says why not.
  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  // The value. REQUIRES: ok().
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }
  T take() { return std::move(*value_); }

 private:
  std::optional<T> value_;
  Status status_;
};

// Says where and ends the process; for WEFT_CHECK.
[[noreturn]] void check_failed(const char* file, int line, const char* what);

}  // namespace weft

// An invariant of weft itself: on in every build, ends the process with the place.
#define WEFT_CHECK(condition) \
  ((condition) ? void() : ::weft::check_failed(__FILE__, __LINE__, #condition))

// Hands a failure up; used with expressions that give a Status.
#define WEFT_TRY(expression)                                                              \
  do {                                                                                    \
    if (::weft::Status weft_status = (expression); !weft_status.ok()) return weft_status; \
  } while (0)
