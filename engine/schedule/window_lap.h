// How far leases of window space (executor/lease.h) go before they come round.
//
// Short leases stay in a part of the ring that a core's own cache holds beside all else: 1024 of a
// cache line, 256 of a line of ll. Where data go one way, a rank may be so many calls ahead of
// others before it waits. (The ring of ll lines is as long, and LeaseRing tells as many leases
// apart: more of one alone would change nothing.) What is longer goes round in more than a core's
// own cache holds: a line that another core has written or read a moment ago comes at half the
// speed of one that has left for the cache that both share (docs/performance.md, "Windows that come
// round too soon").
//
// But where who writes a line is who has read it last (Algorithm::hands_back), it is to stay in
// that core's own cache, and leases come round as soon as may be.
#pragma once

#include <algorithm>
#include <cstddef>

namespace weft {

inline constexpr size_t kShortLease = 512;
inline constexpr size_t kShortLapBytes = 64 << 10;
inline constexpr size_t kWindowLapBytes = 2 << 20;  // twice the cache of a core

// Where ranks are more than CPUs, the windows of those that share one lie in its cache together,
// and much of what is read there was written there.
inline constexpr size_t kCrowdedLapBytes = 512 << 10;

inline constexpr size_t kHandedBackLapBytes = 256 << 10;

// `crowded`: ranks are more than the CPUs that they may use. REQUIRES: 0 < bytes.
inline size_t window_lap(size_t bytes, bool crowded, bool handed_back) {
  constexpr size_t kUnderWay = 4;  // at least, before one has to wait
  // Nobody is more than a call ahead: data go both ways.
  constexpr size_t kUnderWayBack = 2;
  if (bytes <= kShortLease) return kShortLapBytes;
  if (handed_back) return std::max(kUnderWayBack * bytes, kHandedBackLapBytes);
  return std::max(kUnderWay * bytes, crowded ? kCrowdedLapBytes : kWindowLapBytes);
}

}  // namespace weft
