// Lines that another core reads next.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft {

// More bytes than this are read faster from the cache of the core that wrote them: where ranks
// exchange data, each waiting for the other's, and where a writer may be ahead.
inline constexpr size_t kHandedOverInExchange = 1024, kHandedOverMost = 512;

// Hints that `memory`, just written, is read next by another core: its lines leave this core's
// caches for the one that all share, where they are found sooner. CLDEMOTE, which CPUs that do not
// have it take for no operation.
inline void hand_over(const void* memory, size_t bytes) {
#if defined(__x86_64__)
  constexpr uintptr_t kLine = 64;
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  for (uintptr_t line = begin & -kLine; line < begin + bytes; line += kLine)
    asm volatile("cldemote %0" : : "m"(*reinterpret_cast<const char*>(line)));
#else
  (void)memory, (void)bytes;
#endif
}

}  // namespace weft
