// Hierarchical: nodes of k ranks and more, about alike. Inside a node all deal with its leader
// directly (direct_one_shot), and leaders are a ring. With m = n/k nodes of at most g ranks:
//   all_reduce      2m hops,  2(m-1) + (g-1)m of m chunks (a leader)
//   all_gather      m+1 hops, a leader: nearly n blocks to the next, and n to each of its ranks
//   reduce_scatter  m+1 hops, n blocks (all others)
//   broadcast       m hops, g chunks;   reduce  m hops, 1 chunk
// Any other two algorithms are composed in the same way: see hierarchy.h.
#include <algorithm>

#include "engine/algorithms/catalog.h"
#include "engine/algorithms/hierarchy.h"
#include "engine/algorithms/words.h"

namespace weft {
namespace {

// Nodes of neighbours, the larger ones first. All have two ranks at least.
std::vector<int> node_sizes(int n, int radix) {
  const int nodes = std::max(1, n / std::min(radix, 32));  // a leader folds 64 operands at most
  std::vector<int> sizes(static_cast<size_t>(nodes), n / nodes);
  for (int i = 0; i < n % nodes; ++i) ++sizes[i];
  return sizes;
}

Program build(const Collective& c, Rank me, const Parameters& parameters) {
  const Algorithm direct = direct_one_shot(), between = ring();
  Hierarchy hierarchy{{}, &direct, &between};
  const std::vector<int> sizes = node_sizes(c.ranks, parameters.radix);
  for (size_t node = 0; node < sizes.size(); ++node)
    hierarchy.node_of_rank.insert(hierarchy.node_of_rank.end(), static_cast<size_t>(sizes[node]),
                                  static_cast<int>(node));
  return compose(c, hierarchy, me, parameters);
}

bool suits(const Collective& c) { return ring().suits(c); }

// Chunks that the leader of a node sends.
int sent(const Collective& c, const std::vector<int>& sizes, int node, int root_node) {
  const int nodes = static_cast<int>(sizes.size()), others = sizes[node] - 1;
  const int next = wrap(node + 1, nodes);
  switch (c.kind) {
    case Kind::all_reduce: return 2 * (nodes - 1) + others * nodes;
    case Kind::all_gather: return (nodes > 1 ? c.ranks - sizes[next] : 0) + others * c.ranks;
    case Kind::broadcast: return (next == root_node ? 0 : 1) + others;
    default: return 0;  // other ranks send more
  }
}

Cost cost(const Collective& c, const Parameters& parameters) {
  if (c.ranks == 1) return {};
  const std::vector<int> sizes = node_sizes(c.ranks, parameters.radix);
  const int nodes = static_cast<int>(sizes.size());
  int root_node = 0;
  for (int end = sizes[0]; end <= c.root; end += sizes[++root_node]) continue;
  Cost cost{nodes, c.kind == Kind::all_reduce ? nodes : 1};  // what others send to the leader
  if (c.kind == Kind::all_reduce) cost.hops = 2 * nodes;
  if (c.kind == Kind::all_gather || c.kind == Kind::reduce_scatter) cost.hops = nodes + 1;
  if (c.kind == Kind::reduce_scatter) cost.chunks_sent = c.ranks;
  for (int node = 0; node < nodes; ++node)
    cost.chunks_sent = std::max(cost.chunks_sent, sent(c, sizes, node, root_node));
  return cost;
}

// By a node, where all are of one size.
int turn(const Collective& c, const Parameters& parameters) {
  const std::vector<int> sizes = node_sizes(c.ranks, parameters.radix);
  return has_root(c.kind) || sizes.front() != sizes.back() ? 0 : sizes[0];
}

}  // namespace

Algorithm hierarchical() {
  return {.name = "hierarchical",
          .summary = "nodes of radix ranks: directly to leaders, which are a ring (Karonis 2000)",
          .radix = true,
          .suits = suits,
          .build = build,
          .cost = cost,
          .turn = turn};
}

}  // namespace weft
