// Which algorithm runs a call, and how: by a table over sizes. Pure, so that all ranks choose
// alike.
#pragma once

#include "base/options.h"
#include "engine/algorithms/algorithm.h"
#include "engine/call.h"

namespace weft {

// What the ranks of a communicator share, the same on all of them.
struct Surroundings {
  int ranks = 1;
  bool windows = false;              // every rank's window is mapped in every other
  const Algorithm* own = nullptr;    // the one that options.algorithm asks for, where it is a file
  std::string_view own_serves = {};  // for messages
};

struct Choice {
  const Algorithm* algorithm = nullptr;
  int radix = 2;
  bool ll = false;
  int copies = 1;
  size_t segment_bytes = 0;
};

// An error where options ask for what cannot serve this call; it says what can.
Result<Choice> choose(const Call& call, const Surroundings& around, const Options& options);

}  // namespace weft
