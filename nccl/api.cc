#include "nccl/api.h"

#include "base/process_wide.h"
#include "base/text.h"
#include "nccl/debug.h"

namespace weft::nccl {
namespace {

// The last error of any thread: who waits for a thread of the library's has no other place to ask.
struct Latest {
  std::string text;
};

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
  ProcessWide<Latest>()->text = own_latest();
  return code_of(status);
}

std::string last_error() {
  if (!own_latest().empty()) return own_latest();
  return ProcessWide<Latest>()->text;
}

}  // namespace weft::nccl
