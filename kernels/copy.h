// Copies of memory, by where their lines lie.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/reduce.h"

namespace weft {

enum class CopyWay : uint8_t {
  own,      // from the core's own memory to its own
  shared,   // lines come from another core's caches, or another core reads them next
  streamed  // past the caches (non-temporal)
};

// memcpy, the way that is fastest on this machine.
void copy_bytes(void* to, const void* from, size_t bytes, CopyWay way);

// The same with one instruction set, REQUIRES: available.
void copy_bytes(void* to, const void* from, size_t bytes, CopyWay way, Isa isa);

}  // namespace weft
