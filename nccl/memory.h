// Memory: where pointers lie, and what ncclMemAlloc gives.
#pragma once

#include <cstddef>

#include "base/status.h"

namespace weft::nccl {

// Whether only a GPU reaches it: CUDA's pinned and managed memory is the host's as well. For
// communicators that have no GPU. Without a CUDA driver in the process there is nothing but host
// memory.
bool is_of_gpu(const void* memory);

// Whether there is something to register, by the names of this interface.
Status check_registered(const void* buff, size_t size);

}  // namespace weft::nccl
