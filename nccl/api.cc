#include "nccl/api.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <new>

#include "base/env.h"
#include "base/process_wide.h"
#include "base/text.h"
#include "nccl/debug.h"

namespace weft::nccl {
namespace {

// The last error of any thread: who waits for a thread of the library's has no other place to ask.
struct Latest {
  std::string text;
};

// The calling thread's, cut off where it is too long. No object: calls also fail in destructors of
// static ones, when those of threads are gone.
constexpr size_t kOwnBytes = 8192;
std::array<char, kOwnBytes>& own_latest() {
  static thread_local std::array<char, kOwnBytes> text{};
  return text;
}

void keep_own(std::string_view text) {
  std::array<char, kOwnBytes>& own = own_latest();
  *std::copy_n(text.data(), std::min(text.size(), own.size() - 1), own.data()) = 0;
}

}  // namespace

Status invalid_usage(std::string message) { return unsupported(std::move(message)); }

std::string address_text(const void* address) {
  char text[32];
  std::snprintf(text, sizeof text, "%p", address);
  return text;
}

ncclResult_t code_of(const Status& status) {
  switch (status.code()) {
    case Code::ok: return ncclSuccess;
    case Code::invalid_argument: return ncclInvalidArgument;
    case Code::mismatch:
    case Code::unsupported: return ncclInvalidUsage;
    case Code::timeout:
    case Code::peer_lost:
    case Code::aborted: return ncclRemoteError;
    case Code::system: return ncclSystemError;
    case Code::internal: return ncclInternalError;
  }
  return ncclInternalError;
}

ncclResult_t report(std::string_view call, const Status& status) {
  std::string text = concat(call, ": ", status.message());
  keep_own(text);
  configure_debug(Environment::of_process());
  warn(text);
  ProcessWide<Latest>()->text = std::move(text);
  return code_of(status);
}

Status failure_of(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) == nullptr) return internal_error(error.what());
  return Status(Code::system,
                "there is no memory for it; let the process have more (ulimit -v, or the limit of "
                "its container)");
}

ncclResult_t report(std::string_view call, const std::exception& error) noexcept {
  try {
    return report(call, failure_of(error));
  } catch (const std::exception&) {  // no memory even to say so
    keep_own("there is no memory");
    return ncclSystemError;
  }
}

std::string last_error() {
  if (own_latest().front() != 0) return own_latest().data();
  return ProcessWide<Latest>()->text;
}

}  // namespace weft::nccl
