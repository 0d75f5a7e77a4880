// The last steps that a rank's lanes have done, in memory that is there from the start.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/schedule/trace.h"

namespace weft {

class StepRing {
 public:
  // What is under way at `from_ns` is taken from there on.
  StepRing(size_t most, int64_t from_ns) : steps_(most), from_ns_(from_ns) {}

  int64_t from_ns() const { return from_ns_; }

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
  int64_t from_ns_;
  size_t next_ = 0;
  size_t count_ = 0;
};

}  // namespace weft
