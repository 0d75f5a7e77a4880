// NVIDIA GPUs. The runtime is linked statically and finds the driver when it is first called, so
// that programs start without one.
#pragma once

#include <memory>

#include "engine/device/device.h"

namespace weft {

// How many there are; an error that says why there is none: built without CUDA, no driver, no GPU.
Result<int> cuda_device_count();

// REQUIRES: 0 <= ordinal < cuda_device_count().
Result<std::unique_ptr<Device>> open_cuda_device(int ordinal);

}  // namespace weft
