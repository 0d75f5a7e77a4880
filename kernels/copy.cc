#include "kernels/copy.h"

#include <cstring>

#include "kernels/isa.h"

namespace weft {
namespace {

constexpr size_t kLine = 64;
// Below this, filling the write-combining buffers and draining them costs more than it saves.
constexpr size_t kMinStreamed = 4096;

CopyLoops copy_loops(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::avx2) return avx2_copy_loops();
  if (isa == Isa::avx512) return avx512_copy_loops();
#endif
  (void)isa;
  return {};
}

// Null: the C library's. It may copy by `rep movsb`, which is fast in a core's own caches, and up
// to twice as slow as a loop where the lines come from, or go to, another core's. Shorter copies it
// does faster, by whichever way (docs/performance.md).
CopyLoop loop_for(const CopyLoops& loops, size_t bytes, CopyWay way) {
  switch (way) {
    case CopyWay::own: return nullptr;
    case CopyWay::shared: return bytes >= loops.cached_from ? loops.cached : nullptr;
    case CopyWay::streamed: return bytes >= kMinStreamed ? loops.streamed : nullptr;
  }
  return nullptr;
}

void copy(const CopyLoops& loops, char* to, const char* from, size_t bytes, CopyWay way) {
  const CopyLoop lines = loop_for(loops, bytes, way);
  if (!lines) {
    if (bytes > 0) std::memcpy(to, from, bytes);
    return;
  }
  const size_t head = -reinterpret_cast<uintptr_t>(to) % kLine;
  const size_t whole = (bytes - head) / kLine * kLine;
  std::memcpy(to, from, head);
  lines(to + head, from + head, whole);
  std::memcpy(to + head + whole, from + head + whole, bytes - head - whole);
}

}  // namespace

void copy_bytes(void* to, const void* from, size_t bytes, CopyWay way) {
  static const CopyLoops loops = copy_loops(best_isa());
  copy(loops, static_cast<char*>(to), static_cast<const char*>(from), bytes, way);
}

void copy_bytes(void* to, const void* from, size_t bytes, CopyWay way, Isa isa) {
  copy(copy_loops(isa), static_cast<char*>(to), static_cast<const char*>(from), bytes, way);
}

}  // namespace weft
