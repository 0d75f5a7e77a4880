// Vector clocks: which step of which lane happened before which.
//
// 1. A lane's time is the number of steps it has begun; a snapshot of lane l at time t stands for
//    its step t and all that happened before that step's end.
// 2. If a lane knows lane l up to time t, it knows everything that l knew at time t. So a snapshot
//    whose (lane, time) is known already need not be looked at: most merges cost one comparison.
// 3. Snapshots share one immutable copy of what their lane knew, made anew only after a merge
//    changed it; copies are counted and used again.
#pragma once

#include <cstddef>
#include <vector>

namespace weft::symbolic {

struct Snapshot {
  int lane = -1;
  int time = 0;
  int known = -1;  // index of the shared copy
};

class Clocks {
 public:
  explicit Clocks(int lanes);

  int now(int lane) const { return time_[lane]; }
  void tick(int lane) { ++time_[lane]; }
  bool knows(int lane, int other, int time) const {
    return lane == other || known_[size_t(lane) * lanes_ + other] >= time;
  }

  void merge(int lane, const Snapshot& snapshot);
  Snapshot take(int lane);  // to be handed back to drop()
  void drop(Snapshot& snapshot);

 private:
  int allocate();

  size_t lanes_;
  std::vector<int> time_;
  std::vector<int> known_;   // lanes_ x lanes_
  std::vector<int> latest_;  // by lane: its newest copy, -1 when a merge has made that out of date
  std::vector<std::vector<int>> copies_;
  std::vector<int> uses_;  // of each copy
  std::vector<int> free_;
};

}  // namespace weft::symbolic
