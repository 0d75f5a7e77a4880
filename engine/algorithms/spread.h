// Spreading: an all_gather given by who trades what with whom, stage after stage. Played backwards,
// with a fold at every receiver, it is a reduce_scatter; both, one after the other, an all_reduce,
// in which chunk i is "owned" by rank i.
#pragma once

#include <vector>

#include "engine/algorithms/algorithm.h"

namespace weft {

// A message to one peer and a message from one; either may be missing (no chunks).
struct Trade {
  Rank to = -1;
  std::vector<int> gives = {};
  Rank from = -1;
  std::vector<int> gets = {};
};

// What one rank does. Trades of the same stage know nothing of each other.
struct Spreading {
  int owners = 0;          // ranks 0 .. owners-1 have a chunk at first; all ranks in the end
  int message_chunks = 0;  // that any rank gives or gets at once, at most
  std::vector<std::vector<Trade>> stages;
};

// all_gather, reduce_scatter, all_reduce.
bool can_spread(const Collective& c);

// REQUIRES: c.ranks > 1; after all stages every rank has got every chunk but its own exactly once;
// owners are all ranks, but for all_reduce, where they may be fewer.
Program spread(const Collective& c, Rank me, const Spreading& mine);

}  // namespace weft
