// Memory: where pointers lie, and what ncclMemAlloc gives.
#pragma once

#include "base/status.h"

namespace weft::nccl {

// Where memory lies that calls are given.
enum class MemoryKind : unsigned char {
  host,    // of this process; CUDA's pinned and managed memory, too
  device,  // of a GPU: not served yet
};

// The one place that decides it. Without a CUDA driver in the process there is nothing but host
// memory.
MemoryKind kind_of(const void* memory);

// ok, or that the memory named so is a GPU's.
Status check_host_memory(const char* name, const void* memory);

}  // namespace weft::nccl
