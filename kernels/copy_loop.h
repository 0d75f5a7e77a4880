// The loops that copy whole lines, for every kit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cache_lines.h"
#include "kernels/claim.h"
#include "kernels/isa.h"
#include "kernels/vector.h"

namespace weft {

enum class LineStores : uint8_t { claimed, plain, streamed };

template <class Kit, LineStores kStores>
struct CopyLines {
  using V = Vec<uint8_t, Kit::kBytes>;
  static constexpr size_t kVector = sizeof(V);
  static_assert(kCacheLine % kVector == 0);

  template <size_t kVectors>
  static WEFT_HD void step(char* to, const char* from) {
    V part[kVectors];
    for (size_t v = 0; v < kVectors; ++v) part[v] = Kit::template load<V>(from + v * kVector);
    for (size_t v = 0; v < kVectors; ++v) {
      if constexpr (kStores == LineStores::streamed)
        Kit::stream(to + v * kVector, part[v]);
      else
        Kit::store(to + v * kVector, part[v]);
    }
  }

  static void run(char* to, const char* from, size_t bytes) {
    constexpr size_t kInFlight = 8, kBlock = kInFlight * kVector;
    size_t at = 0;
    if constexpr (kStores == LineStores::claimed) {
      for (; bytes - at >= kBlock + kClaimAhead; at += kBlock) {
        claim_lines<Kit, kBlock>(to + at + kClaimAhead);
        step<kInFlight>(to + at, from + at);
      }
    }
    for (; bytes - at >= kBlock; at += kBlock) step<kInFlight>(to + at, from + at);
    for (; at < bytes; at += kCacheLine) step<kCacheLine / kVector>(to + at, from + at);
    if constexpr (kStores == LineStores::streamed) Kit::fence();
  }
};

template <class Kit>
CopyLoops copy_loops_of(size_t cached_from) {
  return {.shared = CopyLines<Kit, LineStores::claimed>::run,
          .taken = CopyLines<Kit, LineStores::plain>::run,
          .cached_from = cached_from,
          .streamed = CopyLines<Kit, LineStores::streamed>::run};
}

}  // namespace weft
