// Bine trees (binomial negabinary): binomial trees whose edges are Swing's: 1, 1, 3, 5, 11, ...
// ranks long, to both sides, the longest from the root. So less data goes far. L = log2 n:
//   broadcast, reduce  L hops, L chunks and 1
//   gather, scatter    L hops, n/2 blocks (the root's first child) and n-1 (the root)
// Ranks beyond a power of two are further children of rank - core: at most one hop and one chunk
// more, and twice the blocks.
// Source: D. De Sensi et al., "Bine trees: enhancing collective operations by optimizing
// communication locality", SC 2025 (distance halving). Its butterflies are swing's.
#include <bit>

#include "engine/algorithms/butterfly.h"
#include "engine/algorithms/catalog.h"
#include "engine/algorithms/tree.h"
#include "engine/algorithms/words.h"

namespace weft {
namespace {

Tree bine_tree(const Collective& c) {
  const int core = static_cast<int>(std::bit_floor(static_cast<unsigned>(c.ranks)));
  Tree tree(c);
  for (int stage = 0; 1 << stage < core; ++stage)
    for (int i = 0; i < 1 << stage; ++i)
      tree.join(swing_partner(tree.joined(i), stage, core), tree.joined(i));
  for (int place = core; place < c.ranks; ++place) tree.join(place, place - core);
  return tree;
}

Program build(const Collective& c, Rank me, const Parameters&) {
  return c.ranks == 1 ? alone(c) : along_tree(c, bine_tree(c), me);
}

Cost cost(const Collective& c, const Parameters&) {
  return c.ranks == 1 ? Cost{} : tree_cost(c, bine_tree(c));
}

}  // namespace

Algorithm bine() {
  return {.name = "bine",
          .summary = "binomial trees with short edges to both sides (De Sensi et al. 2025)",
          .suits = goes_along_tree,
          .build = build,
          .cost = cost};
}

}  // namespace weft
