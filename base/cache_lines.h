// The cache lines that memory lies in.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft {

inline constexpr size_t kCacheLine = 64;

// Calls `use` with an address in each line that has one of the bytes. Reads none of them.
template <class Use>
void each_line(const void* memory, size_t bytes, Use use) {
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  if (bytes == 0) return;
  for (uintptr_t line = begin & -uintptr_t{kCacheLine}; line < begin + bytes; line += kCacheLine)
    use(reinterpret_cast<const char*>(line));
}

}  // namespace weft
