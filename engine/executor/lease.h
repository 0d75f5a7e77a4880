// Leases of window space: who may use which bytes of every rank's window in which call.
//
// All ranks make the same windowed calls in the same order and lease the same sizes, so each
// computes the same places without asking. The space of a window is a ring; a call may reuse space
// only when every rank has finished the calls that used it before: lease() says up to which call
// that must hold, and each rank publishes in its window how many calls it has finished.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/status.h"

namespace weft {

class LeaseRing {
 public:
  struct Lease {
    size_t offset = 0;          // bytes from the ring's begin
    uint64_t calls_before = 0;  // calls 1 .. this must be finished by all ranks; 0: none
  };

  explicit LeaseRing(size_t capacity) : capacity_(capacity) {}
  size_t capacity() const { return capacity_; }

  // Space for call number `call` (counting up from 1), among the first `lap` bytes (window_lap.h).
  // REQUIRES: 0 < bytes <= lap <= capacity().
  Lease lease(size_t bytes, size_t lap, uint64_t call) {
    WEFT_CHECK(bytes <= lap && lap <= capacity_);
    if (offset_ + bytes > lap) {
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
  uint64_t next_ = 0;  // position in an endless ring
  size_t offset_ = 0;  // which this is in the real one
  uint64_t must_finish_ = 0;
  uint64_t oldest_ = 0, newest_ = 0;
  std::array<Entry, kRemembered> entries_{};
};

}  // namespace weft
