#include "kernels/copy.h"

#include <cstring>

#include "base/cache_lines.h"
#include "kernels/isa.h"

namespace weft {
namespace {

// Below this, filling the write-combining buffers and draining them costs more than it saves.
constexpr size_t kMinStreamed = 4096;

}  // namespace

// The C library may copy by `rep movsb`. Where lines come from another core's caches, or go there,
// a loop is up to twice as fast, but for short copies. In a core's own it is the other way round on
// Intel's since Ice Lake, which are those that have this AVX-512; Zen 3 and Zen 4 are up to twenty
// times slower by it, as buffers happen to lie (glibc bug 30994).
//
// To claim what stays here, while lines come from another core's caches, is a gain on Intel's, be
// it small; on a Zen 4 the two get in each other's way (docs/experiments.md, "Claimed ahead").
CopyLoops copy_loops(Isa isa, bool intel) {
  CopyLoops loops;
#if defined(__x86_64__)
  if (isa == Isa::avx2) loops = avx2_copy_loops();
  if (isa == Isa::avx512) loops = avx512_copy_loops();
  loops.own_by_library = isa == Isa::avx512 && intel;
  if (intel) loops.taken = loops.shared;
#else
  (void)isa, (void)intel;
#endif
  return loops;
}

namespace {

// Null: the C library's.
CopyLoop loop_for(const CopyLoops& loops, size_t bytes, CopyWay way) {
  if (way == CopyWay::streamed && bytes >= kMinStreamed) return loops.streamed;
  if (way == CopyWay::own && loops.own_by_library) return nullptr;
  if (bytes < loops.cached_from) return nullptr;
  return way == CopyWay::shared ? loops.shared : loops.taken;
}

void copy(const CopyLoops& loops, char* to, const char* from, size_t bytes, CopyWay way) {
  const CopyLoop lines = loop_for(loops, bytes, way);
  if (!lines) {
    if (bytes > 0) std::memcpy(to, from, bytes);
    return;
  }
  const size_t head = -reinterpret_cast<uintptr_t>(to) % kCacheLine;
  const size_t whole = (bytes - head) / kCacheLine * kCacheLine;
  std::memcpy(to, from, head);
  lines(to + head, from + head, whole);
  std::memcpy(to + head + whole, from + head + whole, bytes - head - whole);
}

}  // namespace

void copy_long(void* to, const void* from, size_t bytes, CopyWay way) {
  static const CopyLoops loops = copy_loops(best_isa(), is_intels());
  copy(loops, static_cast<char*>(to), static_cast<const char*>(from), bytes, way);
}

void copy_bytes(void* to, const void* from, size_t bytes, CopyWay way, Isa isa) {
  copy(copy_loops(isa, is_intels()), static_cast<char*>(to), static_cast<const char*>(from), bytes,
       way);
}

}  // namespace weft
