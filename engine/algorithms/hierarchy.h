// Hierarchical composition of any two algorithms: `inside` collects what a node's ranks have at the
// node's leader, `between` works among leaders, and `inside` spreads what they got.
// Source: N. Karonis et al., "Exploiting hierarchy in parallel computer networks to optimize
// collective operation performance", IPDPS 2000.
#pragma once

#include <vector>

#include "engine/algorithms/algorithm.h"

namespace weft {

struct Hierarchy {
  std::vector<int> node_of_rank;  // nodes are 0, 1, ...; their sizes may differ
  const Algorithm* inside = nullptr;
  const Algorithm* between = nullptr;
};

// Whether both can do what they have to: for all_reduce, say, reduce and broadcast inside, and
// all_reduce between. all_reduce, all_gather, reduce_scatter, broadcast, reduce, gather, scatter.
bool can_compose(const Collective& c, const Hierarchy& hierarchy);

// REQUIRES: can_compose(c, hierarchy).
Program compose(const Collective& c, const Hierarchy& hierarchy, Rank me,
                const Parameters& parameters);

}  // namespace weft
