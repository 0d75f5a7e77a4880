// How far leases of window space (executor/lease.h) go before they come round.
//
// Leases of up to a page stay in a small part of the ring, in the caches of those who write and
// read it. What is longer goes round in more than a core's own cache holds: a line that another
// core has written or read a moment ago comes at half the speed of one that has left for the cache
// that both share (docs/performance.md, "Windows that come round too soon").
#pragma once

#include <algorithm>
#include <cstddef>

namespace weft {

inline constexpr size_t kSmallLease = 4096;
inline constexpr size_t kWindowLapBytes = 2 << 20;  // twice the cache of a core

// REQUIRES: 0 < bytes.
inline size_t window_lap(size_t bytes) {
  constexpr size_t kUnderWay = 4;  // at least, before one has to wait
  constexpr size_t kMost = 64;     // of those that are not small
  if (bytes <= kSmallLease) return kUnderWay * kSmallLease;
  return std::max(kUnderWay * bytes, std::min(kMost * bytes, kWindowLapBytes));
}

}  // namespace weft
