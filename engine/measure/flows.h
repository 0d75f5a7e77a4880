// How fast bytes get from the memory of one rank to that of another.
#pragma once

#include <limits>
#include <vector>

#include "engine/measure/pair.h"

namespace weft::measuring {

// The memory that a flow comes from, and goes to, is so many messages long.
inline constexpr size_t kSpan = 4;

// Messages of one length: of ranks that both send and receive, and from one to the other only.
struct Flow {
  size_t bytes = 0;
  bool windows = false;  // that carry them, not links
  // One at a time, both ways: short ones, and in a socket, where two would be more than a core's
  // cache holds, unlike in most calls. Else another one is under way meanwhile.
  bool awaited = false;
  double both_s = std::numeric_limits<double>::max();  // least seconds for one out and one in,
  double one_s = both_s;                               // and for one, of one way only
};

// Of the lengths that links and windows carry, ascending. The first is a cache line at most; short
// messages are slower by the byte than long ones.
std::vector<Flow> flows_of_links(const Pair& pair);
std::vector<Flow> flows_of_windows();

// Measures once more; `past_caches`: writing past them. Lines that were written so are in no cache
// when they are written again, whichever way: first all measurements of one way, then of the other.
// Where the pair's status is not ok afterwards, nothing may be done with it any more.
void measure(Watch& watch, Pair& pair, bool past_caches, Flow& flow);

}  // namespace weft::measuring
