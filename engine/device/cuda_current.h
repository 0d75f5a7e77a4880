// CUDA's runtime as the device calls it: with its GPU current, and errors as statuses.
#pragma once

#include <cuda_runtime.h>

#include <string_view>
#include <utility>

#include "base/status.h"
#include "base/text.h"
#include "engine/device/cuda_driver.h"
#include "engine/device/gpu.h"

namespace weft {

// Leaves no error behind for who asks the runtime for its last one. What a stream that is captured
// refuses is the caller's mistake: nothing is wrong with the device.
inline Status status_of(cudaError_t error, std::string_view what) {
  if (error == cudaSuccess) return {};
  cudaGetLastError();
  const bool captures =
      error >= cudaErrorStreamCaptureUnsupported && error <= cudaErrorStreamCaptureWrongThread;
  return Status(captures ? Code::invalid_argument : Code::system,
                concat("CUDA could not ", what, ": ", cudaGetErrorString(error), " (",
                       cudaGetErrorName(error), ")"));
}

// The GPU that the calling thread has entered: -1 or its number.
inline thread_local int entered_gpu = -1;

// Makes the device current, and a capture that another stream is in no hindrance; nothing where the
// thread has entered it already.
inline Gpu::Before enter_gpu(const Driver& driver, int ordinal, cudaError_t* error) {
  Gpu::Before before;
  before.entered = std::exchange(entered_gpu, ordinal);
  *error = cudaSuccess;
  if (before.entered == ordinal) return before;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  cudaThreadExchangeStreamCaptureMode(&mode);
  before.mode = mode;
  int now = -1;
  if (driver.get_context(&before.context) != 0) before.context = nullptr;
  before.changed =
      before.context == nullptr || cudaGetDevice(&now) != cudaSuccess || now != ordinal;
  if (before.changed) *error = cudaSetDevice(ordinal);
  if (*error != cudaSuccess) entered_gpu = -1;  // so that every call tries, and says why
  return before;
}
inline void leave_gpu(const Driver& driver, int ordinal, const Gpu::Before& before) {
  entered_gpu = before.entered;
  if (before.entered == ordinal) return;
  if (before.changed) driver.set_context(before.context);
  auto mode = static_cast<cudaStreamCaptureMode>(before.mode);
  cudaThreadExchangeStreamCaptureMode(&mode);
}

// The calling thread's current device, for as long as this lives: the caller's context is left as
// it was, none where there was none (cudaSetDevice() would make one).
class Current {
 public:
  Current(const Driver& driver, int ordinal)
      : driver_(driver), ordinal_(ordinal), before_(enter_gpu(driver, ordinal, &error_)) {}
  Current(const Current&) = delete;
  ~Current() { leave_gpu(driver_, ordinal_, before_); }
  // Runs the call, unless the device could not be made current.
  template <class Do>
  Status run(std::string_view what, Do&& call) const {
    return status_of(error_ == cudaSuccess ? call() : error_, what);
  }

 private:
  const Driver& driver_;
  const int ordinal_;
  cudaError_t error_ = cudaSuccess;
  const Gpu::Before before_;
};

}  // namespace weft
