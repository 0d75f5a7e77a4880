// NVIDIA GPUs. The runtime is linked statically and finds the driver when it is first called, so
// that programs start without one.
#pragma once

#include <memory>
#include <string_view>

#include "engine/device/gpu.h"

namespace weft {

// How many there are; an error that says why there is none: built without CUDA, no driver, no GPU.
Result<int> cuda_device_count();

// REQUIRES: 0 <= ordinal < cuda_device_count().
Result<std::shared_ptr<Gpu>> open_cuda_device(int ordinal);

// The one that Options::device names, or why there is none. "auto" starts nothing: it is the
// calling thread's current GPU, where this process has made CUDA's primary context on it.
Result<std::shared_ptr<Gpu>> find_cuda_device(std::string_view wish);

// As NCCL takes it: the calling thread's current GPU, also where the process has not used CUDA yet.
Result<std::shared_ptr<Gpu>> find_current_cuda_device();

}  // namespace weft
