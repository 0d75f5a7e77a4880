#include "nccl/api.h"

#include <mutex>

#include "base/text.h"
#include "nccl/debug.h"

namespace weft::nccl {
namespace {

// The last error of any thread: who waits for a thread of the library's has no other place to ask.
struct Latest {
  std::mutex mutex;
  std::string text;
};

Latest& latest() {
  static Latest* const kept = new Latest;  // never destroyed: threads may outlive main()
  return *kept;
}

std::string& own_latest() {
  static thread_local std::string text;
  return text;
}

}  // namespace

Status invalid_usage(std::string message) { return unsupported(std::move(message)); }

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
  own_latest() = concat(call, ": ", status.message());
  warn(own_latest());
  const std::lock_guard lock(latest().mutex);
  latest().text = own_latest();
  return code_of(status);
}

std::string last_error() {
  if (!own_latest().empty()) return own_latest();
  const std::lock_guard lock(latest().mutex);
  return latest().text;
}

}  // namespace weft::nccl
