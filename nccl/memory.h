// Memory: where pointers lie, and what ncclMemAlloc gives.
#pragma once

#include <cstddef>

#include "base/status.h"

namespace weft::nccl {

// Whether only a GPU reaches it: CUDA's pinned and managed memory is the host's as well. For
// communicators that have no GPU. Without a CUDA driver in the process there is nothing but host
// memory; one that came later than the last communicator is not known yet.
bool is_of_gpu(const void* memory);

// Finds the driver where the program has loaded it. With every communicator that is made, as calls
// must not ask the loader: a child that is forked meanwhile could not load anything.
void look_for_driver();

// Whether there is something to register, by the names of this interface.
Status check_registered(const void* buff, size_t size);

}  // namespace weft::nccl
