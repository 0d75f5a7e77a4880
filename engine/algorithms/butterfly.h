// Butterflies: all_gather, reduce_scatter and all_reduce (spread.h) in which two partners swap, in
// every stage, all that the other one lacks.
//
// As many ranks take part as are a power of two, `core`. A rank beyond them is the guest of
// rank - core: it hands in what it has first, and is given the result at the end.
//
// With m = log2 core: m hops, n-1 blocks, for all_reduce 2m hops and 2(n-1) of n chunks. With
// guests 1 or 2 hops more; a guest's host sends as much again in an all_gather, and core chunks
// more in an all_reduce.
#pragma once

#include "engine/algorithms/spread.h"

namespace weft {

// REQUIRES: stages 0 .. log2(core) - 1 lead from every rank of the core to every other one.
using Partner = Rank (*)(Rank rank, int stage, int core);

Program butterfly(const Collective& c, Rank me, Partner partner);
Cost butterfly_cost(const Collective& c, Partner partner);

// Partners at distance ..., 11, 5, 3, 1, 1 on a ring of the core (swing.cc).
Rank swing_partner(Rank rank, int stage, int core);

}  // namespace weft
