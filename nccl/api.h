// What every entry point of the library shares: its twin's name, its way from a Status to NCCL's
// code, and that no exception leaves it.
#pragma once

#include <exception>
#include <string>
#include <string_view>

#include "base/status.h"
#include "nccl/nccl.h"

// ncclX beside pncclX, weak, so that a profiler's ncclX takes its place.
// NOLINTBEGIN(bugprone-macro-parentheses): it is a declaration
#define WEFT_NCCL_TWIN(name) \
  extern "C" decltype(p##name) name __attribute__((weak, alias("p" #name)))
// NOLINTEND(bugprone-macro-parentheses)

namespace weft::nccl {

// ncclSuccess or ncclInProgress, or why not.
using Answer = Result<ncclResult_t>;

// A call that cannot be made here, or now: ncclInvalidUsage.
Status invalid_usage(std::string message);

// "0x7f...", for messages.
std::string address_text(const void* address);

// NCCL's code for a failure.
ncclResult_t code_of(const Status& status);

// Remembers for ncclGetLastError what went wrong in `call`, and says it where NCCL_DEBUG asks for
// that.
ncclResult_t report(std::string_view call, const Status& status);

// The text of this thread's last error, or, where it had none, of the process's; "" where there was
// none.
std::string last_error();

// An exception as a failure: no memory, or a bug.
Status failure_of(const std::exception& error);
ncclResult_t report(std::string_view call, const std::exception& error) noexcept;

// Calls `body`, which gives a Status.
template <class Body>
Status guarded(const Body& body) {
  try {
    return body();
  } catch (const std::exception& error) {
    return failure_of(error);
  }
}

// Calls `body`, which gives an Answer, and gives its code.
template <class Body>
ncclResult_t answer(const char* call, const Body& body) noexcept {
  try {
    const Answer result = body();
    return result.ok() ? *result : report(call, result.status());
  } catch (const std::exception& error) {
    return report(call, error);
  }
}

}  // namespace weft::nccl
