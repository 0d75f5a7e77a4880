#include <cstring>

#include "kernels/reduce.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace weft {
namespace {

#if defined(__x86_64__)
constexpr size_t kLine = 64;
// The C library may copy by `rep movsb`. It is fast in a core's own caches, and, from here on, up
// to twice as slow as a loop where the lines come from, or go to, another core's. Shorter copies it
// does faster, by whichever way (docs/performance.md).
constexpr size_t kMinLoop = 4096;
// Below this, filling the write-combining buffers and draining them costs more than it saves.
constexpr size_t kMinStreamed = 4096;

// Bytes from `to` to where a line begins.
size_t to_line(const char* to) { return -reinterpret_cast<uintptr_t>(to) % kLine; }

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

// The same into the caches.
[[gnu::target("avx")]] void copy_lines(char* to, const char* from, size_t bytes) {
  constexpr size_t kParts = 8, kPart = sizeof(__m256i);
  const auto copy = [&](size_t at, size_t parts) __attribute__((target("avx"), always_inline)) {
    __m256i part[kParts];
    for (size_t i = 0; i < parts; ++i)
      part[i] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + at + i * kPart));
    for (size_t i = 0; i < parts; ++i)
      _mm256_store_si256(reinterpret_cast<__m256i*>(to + at + i * kPart), part[i]);
  };
  size_t at = 0;
  for (; bytes - at >= kParts * kPart; at += kParts * kPart) copy(at, kParts);
  for (; at < bytes; at += kLine) copy(at, kLine / kPart);
}

// REQUIRES: at least a line. `lines` copies what is whole lines in `to`.
template <class Lines>
void copy_by_lines(char* to, const char* from, size_t bytes, const Lines& lines) {
  const size_t head = to_line(to), whole = (bytes - head) / kLine * kLine;
  std::memcpy(to, from, head);
  lines(to + head, from + head, whole);
  std::memcpy(to + head + whole, from + head + whole, bytes - head - whole);
}
#endif

}  // namespace

void copy_bytes(void* to, const void* from, size_t bytes, bool streaming) {
#if defined(__x86_64__)
  auto* const target = static_cast<char*>(to);
  const auto* const source = static_cast<const char*>(from);
  if (streaming && bytes >= kMinStreamed) return copy_by_lines(target, source, bytes, stream_lines);
  if (bytes >= kMinLoop && __builtin_cpu_supports("avx"))
    return copy_by_lines(target, source, bytes, copy_lines);
#else
  (void)streaming;
#endif
  if (bytes > 0) std::memcpy(to, from, bytes);
}

}  // namespace weft
