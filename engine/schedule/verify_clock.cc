#include "engine/schedule/verify_clock.h"

#include <algorithm>

namespace weft::symbolic {

Clocks::Clocks(int lanes)
    : lanes_(lanes), time_(lanes, 0), known_(lanes_ * lanes_, 0), latest_(lanes, -1) {}

void Clocks::merge(int lane, const Snapshot& snapshot) {
  if (knows(lane, snapshot.lane, snapshot.time)) return;
  int* mine = &known_[size_t(lane) * lanes_];
  const int* theirs = copies_[snapshot.known].data();
  for (size_t i = 0; i < lanes_; ++i) mine[i] = std::max(mine[i], theirs[i]);
  mine[snapshot.lane] = std::max(mine[snapshot.lane], snapshot.time);
  if (latest_[lane] >= 0) {
    Snapshot old{lane, 0, latest_[lane]};
    latest_[lane] = -1;
    drop(old);
  }
}

Snapshot Clocks::take(int lane) {
  if (latest_[lane] < 0) {
    const int copy = allocate();
    const int* mine = &known_[size_t(lane) * lanes_];
    copies_[copy].assign(mine, mine + lanes_);
    latest_[lane] = copy;
    uses_[copy] = 1;
  }
  ++uses_[latest_[lane]];
  return {lane, time_[lane], latest_[lane]};
}

void Clocks::drop(Snapshot& snapshot) {
  if (snapshot.known >= 0 && --uses_[snapshot.known] == 0) free_.push_back(snapshot.known);
  snapshot = {};
}

int Clocks::allocate() {
  if (!free_.empty()) {
    const int copy = free_.back();
    free_.pop_back();
    return copy;
  }
  copies_.emplace_back();
  uses_.push_back(0);
  return static_cast<int>(copies_.size()) - 1;
}

}  // namespace weft::symbolic
