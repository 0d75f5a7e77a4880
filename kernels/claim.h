// Lines that other cores have read, claimed before they are written again.
//
// A store that comes upon such a line waits until it has been fetched and given up there, and few
// stores wait at a time. Asked for early enough, it is this core's own when the store comes: in a
// loop, of what it is about to write; in a call that waits, of what the next one will write.
#pragma once

#include <cstddef>

#include "base/cache_lines.h"
#include "kernels/isa.h"
#include "kernels/number.h"

namespace weft {

inline constexpr size_t kClaimAhead = 1024;  // bytes; by stretches, half of it to all

// What a call claims for the next one while it waits: so many bytes at most, a part of the smallest
// cache beside what the call itself has there.
inline constexpr size_t kClaimedNextMost = 16 << 10;

// Whether a call claims them at all: where that was measured to pay, on Intel's CPUs. On a Zen 4 it
// takes up to 1.4 times as long (docs/experiments.md).
inline bool claims_next() { return is_intels(); }

// As Kit::claim(): the lines of `kBytes` bytes.
template <class Kit, size_t kBytes>
WEFT_HD void claim_lines(const char* begin) {
  for (size_t at = 0; at < kBytes; at += kCacheLine) Kit::claim(begin + at);
}

// The lines of any memory, outside of kernels: PREFETCHW, which CPUs that do not have it take for
// no operation. `memory` need not be there: nothing happens then.
inline void claim_memory(const void* memory, size_t bytes) {
#if defined(__x86_64__)
  each_line(memory, bytes, [](const char* line) { asm volatile("prefetchw %0" : : "m"(*line)); });
#else
  (void)memory, (void)bytes;
#endif
}

}  // namespace weft
