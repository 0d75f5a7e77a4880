// CUDA's runtime as the device calls it: with its GPU current, and errors as statuses.
#pragma once

#include <cuda_runtime.h>

#include <string_view>

#include "base/status.h"
#include "base/text.h"
#include "engine/device/cuda_driver.h"

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

// The calling thread's current device, for as long as this lives: the caller's context is left as
// it was, none where there was none (cudaSetDevice() would make one), and so is a capture that
// another stream is in.
class Current {
 public:
  Current(const Driver& driver, int ordinal) : driver_(driver) {
    int now = -1;
    if (driver.get_context(&before_) != 0) before_ = nullptr;
    changed_ = before_ == nullptr || cudaGetDevice(&now) != cudaSuccess || now != ordinal;
    if (changed_) error_ = cudaSetDevice(ordinal);
    cudaThreadExchangeStreamCaptureMode(&mode_);
  }
  Current(const Current&) = delete;
  ~Current() {
    cudaThreadExchangeStreamCaptureMode(&mode_);
    if (changed_) driver_.set_context(before_);
  }
  // Runs the call, unless the device could not be made current.
  template <class Do>
  Status run(std::string_view what, Do&& call) const {
    return status_of(error_ == cudaSuccess ? call() : error_, what);
  }

 private:
  const Driver& driver_;
  void* before_ = nullptr;
  bool changed_ = false;
  cudaError_t error_ = cudaSuccess;
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace weft
