// Lines that another core reads next.
#pragma once

#include <cstddef>

#include "base/cache_lines.h"

namespace weft {

// More bytes than this are read faster from the cache of the core that wrote them: where ranks
// exchange data, each waiting for the other's, and where a writer may be ahead.
inline constexpr size_t kHandedOverInExchange = 1024, kHandedOverMost = 512;

// Hints that `memory`, just written, is read next by another core: its lines leave this core's
// caches for the one that all share, where they are found sooner. CLDEMOTE, which CPUs that do not
// have it take for no operation.
inline void hand_over(const void* memory, size_t bytes) {
#if defined(__x86_64__)
  each_line(memory, bytes, [](const char* line) { asm volatile("cldemote %0" : : "m"(*line)); });
#else
  (void)memory, (void)bytes;
#endif
}

}  // namespace weft
