// Copies of memory, by where their lines lie.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/reduce.h"

namespace weft {

enum class CopyWay : uint8_t {
  own,      // from the core's own memory to its own
  shared,   // lines come from another core's caches, or another core reads them next; what is
            // written is claimed before (claim.h), which costs nothing where it stays here
  streamed  // past the caches (non-temporal), with AVX2 or AVX-512
};

inline constexpr size_t kLongCopy = 1024;  // bytes

// As copy_bytes(), REQUIRES: a long copy.
void copy_long(void* to, const void* from, size_t bytes, CopyWay way);

// memcpy, by the instruction set that is the best of this machine. Never a function of its own: of
// those that the linker finds, one may have been compiled for more than this CPU has.
[[gnu::always_inline]] inline void copy_bytes(void* to, const void* from, size_t bytes,
                                              CopyWay way) {
  if (bytes >= kLongCopy)
    copy_long(to, from, bytes, way);
  else if (bytes > 0)
    std::memcpy(to, from, bytes);
}

// The same with one instruction set, REQUIRES: available.
void copy_bytes(void* to, const void* from, size_t bytes, CopyWay way, Isa isa);

}  // namespace weft
