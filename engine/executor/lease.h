// Leases of window space: who may use which bytes of every rank's window in which call.
//
// All ranks make the same windowed calls in the same order and lease the same sizes, so each
// computes the same places without asking. The space of a window is a ring; a call may reuse space
// only when every rank has finished the calls that used it before: lease() says up to which call
// that must hold, and each rank publishes in its window how many calls it has finished.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/status.h"
#include "engine/schedule/window_lap.h"

namespace weft {

class LeaseRing {
 public:
  struct Lease {
    size_t offset = 0;          // bytes from the ring's begin
    uint64_t calls_before = 0;  // calls 1 .. this must be finished by all ranks; 0: none
  };

  // `crowded`: ranks are more than the CPUs that they may use.
  LeaseRing(size_t capacity, bool crowded) : capacity_(capacity), crowded_(crowded) {}
  size_t capacity() const { return capacity_; }

  // Bytes after which leases of this length come round.
  size_t lap(size_t bytes) const { return std::min(capacity_, window_lap(bytes, crowded_)); }

  // Space for call number `call` (counting up from 1). REQUIRES: 0 < bytes <= capacity().
  Lease lease(size_t bytes, uint64_t call) {
    WEFT_CHECK(bytes <= capacity_);
    if (offset_ + bytes > lap(bytes)) {
      next_ += capacity_ - offset_;
      offset_ = 0;
    }
    const size_t offset = std::exchange(offset_, offset_ + bytes);
    const uint64_t begin = std::exchange(next_, next_ + bytes);
    // Everything that began before `reused` lies where this lease lies, or further back.
    const uint64_t reused = next_ > capacity_ ? next_ - capacity_ : 0;
    while (oldest_ < newest_ && (at(oldest_).begin < reused || newest_ - oldest_ == kRemembered))
      must_finish_ = at(oldest_++).call;
    at(newest_++) = {begin, call};
    return {offset, must_finish_};
  }

 private:
  // Leases under way that are told apart; beyond that the oldest counts as overlapping.
  static constexpr uint64_t kRemembered = 1024;
  struct Entry {
    uint64_t begin = 0;
    uint64_t call = 0;
  };
  Entry& at(uint64_t i) { return entries_[i % kRemembered]; }

  size_t capacity_;
  bool crowded_;
  uint64_t next_ = 0;  // position in an endless ring
  size_t offset_ = 0;  // which this is in the real one
  uint64_t must_finish_ = 0;
  uint64_t oldest_ = 0, newest_ = 0;
  std::array<Entry, kRemembered> entries_{};
};

}  // namespace weft
