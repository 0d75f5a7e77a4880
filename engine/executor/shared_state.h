// What the calls of one communicator share, across plans: counts of signals, leases of window
// space, scratch memory.
#pragma once

#include <memory>
#include <new>
#include <vector>

#include "engine/executor/lease.h"
#include "engine/executor/step_ring.h"
#include "engine/media.h"

namespace weft {

class SharedState {
 public:
  explicit SharedState(const Media& media)
      : ll(WindowLayout::kLlBytes),
        data(media.window_layout().fits() ? media.window_layout().data_bytes() : 0),
        posted_(static_cast<size_t>(media.ranks()) * WindowLayout::kCells, 0),
        expected_(posted_),
        finished_(media.ranks(), 0),
        transfers_(2 * static_cast<size_t>(media.ranks()), 0) {}

  LeaseRing ll, data;
  uint64_t calls = 0;               // windowed calls begun
  uint64_t ll_serial = 1;           // next unused ll flag
  std::unique_ptr<StepRing> trace;  // null: steps are not noted down

  // Posts made by this rank to (peer, cell), over all calls.
  uint64_t& posted(Rank peer, int cell) { return posted_[index(peer, cell)]; }
  // Posts that peers made to this rank's cell in all earlier calls.
  uint64_t& expected(Rank peer, int cell) { return expected_[index(peer, cell)]; }
  // The last known count of calls that a rank has finished.
  uint64_t& finished(Rank rank) { return finished_[rank]; }
  // Transfers of groups to a peer, and from it, that were begun.
  uint64_t& sent(Rank peer) { return transfers_[2 * static_cast<size_t>(peer)]; }
  uint64_t& received(Rank peer) { return transfers_[2 * static_cast<size_t>(peer) + 1]; }
  // A count of calls that all ranks are known to have finished.
  uint64_t finished_by_all = 0;

  // Memory for one collective call at a time, aligned to cache lines; allocates when it must grow.
  // nullptr where the process has none left.
  std::byte* scratch(size_t bytes) {
    if (scratch_bytes_ < bytes) {
      scratch_bytes_ = 0;
      scratch_.reset();
      scratch_.reset(new (std::nothrow) std::byte[bytes + 64]);
      if (!scratch_) return nullptr;
      scratch_bytes_ = bytes;
    }
    const auto begin = reinterpret_cast<uintptr_t>(scratch_.get());
    return scratch_.get() + (64 - begin % 64) % 64;
  }

 private:
  static size_t index(Rank peer, int cell) {
    return static_cast<size_t>(peer) * WindowLayout::kCells + cell;
  }
  std::vector<uint64_t> posted_, expected_, finished_, transfers_;
  std::unique_ptr<std::byte[]> scratch_;
  size_t scratch_bytes_ = 0;
};

}  // namespace weft
