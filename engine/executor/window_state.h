// What the windowed calls of one communicator share, across plans: counts and leases.
#pragma once

#include <vector>

#include "engine/executor/lease.h"
#include "engine/media.h"

namespace weft {

class WindowState {
 public:
  explicit WindowState(const Media& media)
      : ranks_(media.ranks()),
        ll(WindowLayout::kLlBytes),
        data(media.window_layout().fits() ? media.window_layout().data_bytes() : 0),
        posted_(static_cast<size_t>(ranks_) * WindowLayout::kCells, 0),
        expected_(posted_),
        finished_(ranks_, 0) {}

 private:
  const int ranks_;

 public:
  LeaseRing ll, data;
  uint64_t calls = 0;      // windowed calls begun
  uint64_t ll_serial = 1;  // next unused ll flag

  // Posts made by this rank to (peer, cell), over all calls.
  uint64_t& posted(Rank peer, int cell) { return posted_[index(peer, cell)]; }
  // Posts that peers made to this rank's cell in all earlier calls.
  uint64_t& expected(Rank peer, int cell) { return expected_[index(peer, cell)]; }
  // The last known count of calls that a rank has finished.
  uint64_t& finished(Rank rank) { return finished_[rank]; }

 private:
  size_t index(Rank peer, int cell) const {
    return static_cast<size_t>(peer) * WindowLayout::kCells + cell;
  }
  std::vector<uint64_t> posted_, expected_, finished_;
};

}  // namespace weft
