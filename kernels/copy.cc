#include <cstring>

#include "kernels/reduce.h"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace weft {
namespace {

#if defined(__x86_64__)
// Below this, filling the write-combining buffers and draining them costs more than it saves.
constexpr size_t kMinStreamed = 4096;
constexpr size_t kLine = 64;

// REQUIRES: `to` aligned to a line, `bytes` a multiple of one.
void stream_lines(char* to, const char* from, size_t bytes) {
  for (size_t at = 0; at < bytes; at += kLine) {
    __m128i part[4];
    for (int i = 0; i < 4; ++i)
      part[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at) + i);
    for (int i = 0; i < 4; ++i) _mm_stream_si128(reinterpret_cast<__m128i*>(to + at) + i, part[i]);
  }
  _mm_sfence();
}

void copy_past_caches(char* to, const char* from, size_t bytes) {
  const size_t head = -reinterpret_cast<uintptr_t>(to) % kLine;
  const size_t lines = (bytes - head) / kLine * kLine;
  std::memcpy(to, from, head);
  stream_lines(to + head, from + head, lines);
  std::memcpy(to + head + lines, from + head + lines, bytes - head - lines);
}
#endif

}  // namespace

void copy_bytes(void* to, const void* from, size_t bytes, bool streaming) {
#if defined(__x86_64__)
  if (streaming && bytes >= kMinStreamed)
    return copy_past_caches(static_cast<char*>(to), static_cast<const char*>(from), bytes);
#else
  (void)streaming;
#endif
  if (bytes > 0) std::memcpy(to, from, bytes);
}

}  // namespace weft
