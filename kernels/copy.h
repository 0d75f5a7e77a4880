// Copies of memory, by where their lines lie.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/reduce.h"

namespace weft {

enum class CopyWay : uint8_t {
  own,      // from the core's own memory to its own
  shared,   // another core reads next what is written, whose lines are claimed before (claim.h)
  taken,    // what is written stays here; lines may come from another core's caches
  streamed  // past the caches (non-temporal), with AVX2 or AVX-512
};

inline constexpr size_t kLongCopy = 1024;  // bytes

// As copy_bytes(), REQUIRES: a long copy.
void copy_long(void* to, const void* from, size_t bytes, CopyWay way);

// The next two are never functions of their own: of those that the linker finds, one may have been
// compiled for more than this CPU has.

// By a word at either end, which may overlap. REQUIRES: one word to two.
template <class Word>
[[gnu::always_inline]] inline void copy_ends(void* to, const void* from, size_t bytes) {
  const size_t last = bytes - sizeof(Word);
  Word ends[2];
  std::memcpy(&ends[0], from, sizeof(Word));
  std::memcpy(&ends[1], static_cast<const char*>(from) + last, sizeof(Word));
  std::memcpy(to, &ends[0], sizeof(Word));
  std::memcpy(static_cast<char*>(to) + last, &ends[1], sizeof(Word));
}

// memcpy, by the instruction set that is the best of this machine; of 4 to 16 bytes without a call.
[[gnu::always_inline]] inline void copy_bytes(void* to, const void* from, size_t bytes,
                                              CopyWay way) {
  if (bytes >= kLongCopy) return copy_long(to, from, bytes, way);
  if (bytes >= 8 && bytes <= 16) return copy_ends<uint64_t>(to, from, bytes);
  if (bytes >= 4 && bytes <= 8) return copy_ends<uint32_t>(to, from, bytes);
  if (bytes == 0) return;
#if defined(__GNUC__)
  asm("" : "+r"(bytes));  // g++ takes `rep movs` where it knows a bound, which is slow to begin
#endif
  std::memcpy(to, from, bytes);
}

// The same with one instruction set, REQUIRES: available.
void copy_bytes(void* to, const void* from, size_t bytes, CopyWay way, Isa isa);

}  // namespace weft
