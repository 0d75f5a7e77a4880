// How far leases of window space (executor/lease.h) go before they come round.
//
// Short leases stay in a part of the ring that a core's own cache holds beside all else: 1024 of a
// cache line, 256 of a line of ll. Where data go one way, a rank may be so many calls ahead of
// others before it waits. (The ring of ll lines is as long, and LeaseRing tells as many leases
// apart: more of one alone would change nothing.) What is longer goes round in more than a core's
// own cache holds: a line that another core has written or read a moment ago comes at half the
// speed of one that has left for the cache that both share (docs/experiments.md, "Windows that come
// round too soon").
//
// But in the first two laps calls take up to half as long again: pages are mapped, and lines come
// from memory. So where nobody is more than a call ahead of the others a lap is no more than 256
// calls: their lines come as fast as those of longer laps. And where who writes a line is who has
// read it last (Algorithm::hands_back), it is to stay in that core's own cache, and leases come
// round as soon as may be.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/types.h"

namespace weft {

inline constexpr size_t kShortLease = 512;
inline constexpr size_t kShortLapBytes = 64 << 10;
inline constexpr size_t kWindowLapBytes = 2 << 20;  // twice the cache of a core

// Where ranks are more than CPUs, the windows of those that share one lie in its cache together,
// and much of what is read there was written there.
inline constexpr size_t kCrowdedLapBytes = 512 << 10;

inline constexpr size_t kHandedBackLapBytes = 256 << 10;

inline constexpr size_t kExchangesInLap = 256;

// How data go through windows in a call.
enum class Traffic : uint8_t {
  one_way,      // some only write, and may be many calls ahead of those that read
  exchanged,    // each waits for all others: nobody is more than a call ahead
  handed_back,  // that, and who writes a line has read it last
};

inline Traffic traffic_of(Kind kind, bool hands_back) {
  if (hands_back) return Traffic::handed_back;
  return has_root(kind) ? Traffic::one_way : Traffic::exchanged;
}

// `crowded`: ranks are more than the CPUs that they may use. REQUIRES: 0 < bytes.
inline size_t window_lap(size_t bytes, Traffic traffic, bool crowded) {
  constexpr size_t kUnderWay = 4;  // at least, before one has to wait
  constexpr size_t kUnderWayBack = 2;
  if (bytes <= kShortLease) return kShortLapBytes;
  if (traffic == Traffic::handed_back) return std::max(kUnderWayBack * bytes, kHandedBackLapBytes);
  size_t lap = crowded ? kCrowdedLapBytes : kWindowLapBytes;
  if (traffic == Traffic::exchanged && !crowded) lap = std::min(lap, kExchangesInLap * bytes);
  return std::max(kUnderWay * bytes, lap);
}

}  // namespace weft
