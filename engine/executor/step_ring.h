// The last steps that a rank's lanes have done, in memory that is there from the start.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "engine/schedule/trace.h"

namespace weft {

class StepRing {
 public:
  explicit StepRing(size_t most) : steps_(most) {}

  void add(const StepDone& step) {
    if (steps_.empty()) return;
    steps_[next_] = step;
    next_ = next_ + 1 == steps_.size() ? 0 : next_ + 1;
    ++count_;
  }
  // Oldest first.
  std::vector<StepDone> in_order() const {
    std::vector<StepDone> all = steps_;
    if (count_ < steps_.size())
      all.resize(count_);
    else
      std::rotate(all.begin(), all.begin() + static_cast<ptrdiff_t>(next_), all.end());
    return all;
  }

 private:
  std::vector<StepDone> steps_;
  size_t next_ = 0;
  size_t count_ = 0;
};

}  // namespace weft
