// What there is to ask: of the library, of errors, of a communicator.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "base/env.h"
#include "base/text.h"
#include "nccl/api.h"
#include "nccl/comm.h"
#include "nccl/debug.h"

namespace weft::nccl {
namespace {

const char* text_of(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "a call of CUDA failed (NCCL_DEBUG=WARN says which)";
    case ncclSystemError: return "a call of the system failed (NCCL_DEBUG=WARN says which)";
    case ncclInternalError: return "an internal error (NCCL_DEBUG=WARN says which)";
    case ncclInvalidArgument: return "an argument is invalid (NCCL_DEBUG=WARN says which)";
    case ncclInvalidUsage: return "this call cannot be made here (NCCL_DEBUG=WARN says why)";
    case ncclRemoteError: return "another rank died, gave up or did not come";
    case ncclInProgress: return "the call is still in progress";
    case ncclTimeout: return "a deadline passed";
  }
  return "unknown result code";
}

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

// The text in this thread's place for it, which stays where it is while the thread lives. What does
// not fit is cut off, between two characters of UTF-8.
const char* placed(std::string_view text) {
  static thread_local std::array<char, 4096> place;
  constexpr std::string_view kCut = "...";
  size_t length = text.size();
  if (length >= place.size()) {
    length = place.size() - kCut.size() - 1;
    while (length > 0 && continues_character(text[length])) --length;
  }
  char* end = std::copy_n(text.data(), length, place.data());
  if (length < text.size()) end = std::copy(kCut.begin(), kCut.end(), end);
  *end = 0;
  return place.data();
}

// What is the matter with the communicator, else with this thread's last call.
const char* last_error_of(ncclComm_t handle) {
  if (const auto comm = handle ? Registry::of_process()->find(handle) : nullptr)
    if (const Status failure = comm->failure(); !failure.ok()) return placed(failure.message());
  return placed(last_error());
}

Answer async_error(ncclComm_t handle, ncclResult_t* out) {
  auto comm = comm_of(handle);
  if (!comm.ok()) return comm.status();
  if (!out) return invalid_argument("asyncError is null; say where the state shall go");
  *out = (*comm)->state();
  return ncclSuccess;
}

enum class Fact : uint8_t { count, rank, device };

Answer tell(ncclComm_t handle, const char* name, int* out, Fact fact) {
  auto comm = comm_of(handle);
  if (!comm.ok()) return comm.status();
  if (!out) return invalid_argument(concat(name, " is null; say where it shall go"));
  auto engine = (*comm)->engine();
  if (!engine) {
    auto made = (*comm)->management();
    if (!made.ok()) return made.status();
    engine = made.take();
  }
  switch (fact) {
    case Fact::count: *out = engine->size(); break;
    case Fact::rank: *out = engine->rank(); break;
    case Fact::device: *out = (*comm)->device; break;
  }
  return ncclSuccess;
}

}  // namespace
}  // namespace weft::nccl

using weft::nccl::answer;
using weft::nccl::Fact;

ncclResult_t pncclGetVersion(int* version) {
  return answer("ncclGetVersion", [&]() -> weft::nccl::Answer {
    if (!version) return weft::invalid_argument("version is null; say where it shall go");
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
  });
}
WEFT_NCCL_TWIN(ncclGetVersion);

const char* pncclGetErrorString(ncclResult_t result) { return weft::nccl::text_of(result); }
WEFT_NCCL_TWIN(ncclGetErrorString);

const char* pncclGetLastError(ncclComm_t comm) {
  try {
    return weft::nccl::last_error_of(comm);
  } catch (const std::exception&) {
    return "the text of the last error is lost: there is no memory";
  }
}
WEFT_NCCL_TWIN(ncclGetLastError);

void pncclResetDebugInit() {
  answer("ncclResetDebugInit", []() -> weft::nccl::Answer {
    weft::nccl::configure_debug(weft::Environment::of_process(), /*again=*/true);
    return ncclSuccess;
  });
}
WEFT_NCCL_TWIN(ncclResetDebugInit);

ncclResult_t pncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  return answer("ncclCommGetAsyncError", [&] { return weft::nccl::async_error(comm, state); });
}
WEFT_NCCL_TWIN(ncclCommGetAsyncError);

ncclResult_t pncclCommCount(const ncclComm_t comm, int* count) {
  return answer("ncclCommCount",
                [&] { return weft::nccl::tell(comm, "count", count, Fact::count); });
}
WEFT_NCCL_TWIN(ncclCommCount);

ncclResult_t pncclCommCuDevice(const ncclComm_t comm, int* device) {
  return answer("ncclCommCuDevice",
                [&] { return weft::nccl::tell(comm, "device", device, Fact::device); });
}
WEFT_NCCL_TWIN(ncclCommCuDevice);

ncclResult_t pncclCommUserRank(const ncclComm_t comm, int* rank) {
  return answer("ncclCommUserRank",
                [&] { return weft::nccl::tell(comm, "rank", rank, Fact::rank); });
}
WEFT_NCCL_TWIN(ncclCommUserRank);
