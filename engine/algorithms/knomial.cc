// k-nomial tree: rank v's parent is v with its lowest non-zero digit (base k) cleared, so that a
// subtree is a range of ranks. Latency-optimal for small messages: about log_k n levels.
//   broadcast, reduce     1 chunk per hop, ceil(log_k n) hops
//   gather, scatter       the same hops; the busiest rank (the root) moves n - 1 chunks
//   all_reduce, barrier   reduce to rank 0, then broadcast
// Source: the textbook binomial tree (R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of
// collective communication operations in MPICH", 2005), in base k.
#include <algorithm>

#include "engine/algorithms/catalog.h"
#include "engine/algorithms/words.h"

namespace weft {
namespace {

// The tree over virtual ranks (root = 0); a subtree is the range [v, v + span(v)).
class Tree {
 public:
  Tree(const Collective& c, int radix) : n_(c.ranks), root_(c.root), radix_(radix) {}

  int place_of(Rank rank) const { return wrap(rank - root_, n_); }
  Rank rank_at(int v) const { return wrap(v + root_, n_); }

  int weight(int v) const {  // of the lowest non-zero digit; past n for the root
    int w = 1;
    while (w < n_ && (v / w) % radix_ == 0) w *= radix_;
    return w;
  }
  int parent(int v) const { return v - (v / weight(v)) % radix_ * weight(v); }
  int end(int v) const { return std::min(n_, v + weight(v)); }  // one past the subtree

  std::vector<int> children(int v) const {  // ascending: smallest subtrees first
    std::vector<int> found;
    for (int w = 1; w < weight(v); w *= radix_)
      for (int d = 1; d < radix_ && v + d * w < n_; ++d) found.push_back(v + d * w);
    return found;
  }
  int depth() const {
    int deepest = 0;
    for (int v = 1; v < n_; ++v) {
      int hops = 0;
      for (int u = v; u != 0; u = parent(u)) ++hops;
      deepest = std::max(deepest, hops);
    }
    return deepest;
  }

 private:
  int n_;
  Rank root_;
  int radix_;
};

constexpr int kUp = 0, kDown = 1;

Step& fold_children(Lane& lane, const Tree& tree, int v) {
  const std::vector<int> children = tree.children(v);
  if (children.empty()) return lane.step(0).read(input());
  Operand held = input();
  for (size_t i = 0; i + 1 < children.size(); ++i) {
    lane.step(0).recv({tree.rank_at(children[i]), kUp}).read(held).write(scratch(0));
    held = scratch(0);
  }
  return lane.step(0).recv({tree.rank_at(children.back()), kUp}).read(held);
}

// The largest subtrees first: they have the longest way to go.
void send_down(Lane& lane, const Tree& tree, int v, Operand held) {
  const std::vector<int> children = tree.children(v);
  for (size_t i = children.size(); i-- > 0;)
    lane.step(0).read(held).send({tree.rank_at(children[i]), kDown});
}

void reduce(Lane& lane, const Collective& c, const Tree& tree, int v) {
  Step& last = fold_children(lane, tree, v);
  if (v == 0)
    last.write(output()).finished(reduces(c.kind));
  else
    last.send({tree.rank_at(tree.parent(v)), kUp});
}

// What comes from the parent is passed to the last child on the way in, then from Output to others.
void broadcast_from_parent(Lane& lane, const Tree& tree, int v) {
  const std::vector<int> children = tree.children(v);
  Step& first = lane.step(0).recv({tree.rank_at(tree.parent(v)), kDown}).write(output());
  if (children.empty()) return;
  first.send({tree.rank_at(children.back()), kDown});
  for (size_t i = children.size() - 1; i-- > 0;)
    lane.step(0).read(output()).send({tree.rank_at(children[i]), kDown});
}

// Blocks travel up in the order of virtual ranks: a rank's own first, then its children's ranges.
void gather(Lane& lane, const Collective& c, const Tree& tree, int v) {
  const Rank me = tree.rank_at(v);
  const LinkEnd up{v == 0 ? -1 : tree.rank_at(tree.parent(v)), kUp};
  if (v == 0)
    copy_own(lane, c, me);
  else
    lane.step(me).read(input()).send(up);
  for (const int child : tree.children(v))
    for (int u = child; u < tree.end(child); ++u) {
      Step& step = lane.step(tree.rank_at(u)).recv({tree.rank_at(child), kUp});
      v == 0 ? step.write(output()) : step.send(up);
    }
}

void scatter(Lane& lane, const Collective& c, const Tree& tree, int v) {
  const Rank me = tree.rank_at(v);
  if (v == 0) {
    const std::vector<int> children = tree.children(0);
    for (size_t i = children.size(); i-- > 0;)
      for (int u = children[i]; u < tree.end(children[i]); ++u)
        lane.step(tree.rank_at(u)).read(input()).send({tree.rank_at(children[i]), kDown});
    copy_own(lane, c, me);
    return;
  }
  const LinkEnd up{tree.rank_at(tree.parent(v)), kDown};
  lane.step(me).recv(up).write(output());
  for (const int child : tree.children(v))
    for (int u = child; u < tree.end(child); ++u)
      lane.step(tree.rank_at(u)).recv(up).send({tree.rank_at(child), kDown});
}

Program build(const Collective& c, Rank me, const Parameters& parameters) {
  if (c.ranks == 1) return alone(c);
  const Tree tree(c, parameters.radix);
  const int v = tree.place_of(me);
  Program program;
  Lane& lane = program.lane();
  switch (c.kind) {
    case Kind::gather: gather(lane, c, tree, v); return program;
    case Kind::scatter: scatter(lane, c, tree, v); return program;
    case Kind::broadcast:
      if (v == 0) {
        send_down(lane, tree, v, input());
        copy_own(lane, c, 0);
      } else {
        broadcast_from_parent(lane, tree, v);
      }
      return program;
    default: break;
  }
  program.scratch_slots = 1;
  reduce(lane, c, tree, v);
  if (!everyone_reduces(c.kind)) return program;
  if (v == 0)
    send_down(lane, tree, v, output());
  else
    broadcast_from_parent(program.lane(), tree,
                          v);  // its own lane: rounds follow each other closely
  return program;
}

Cost cost(const Collective& c, const Parameters& parameters) {
  if (c.ranks == 1) return {};
  const Tree tree(c, parameters.radix);
  const int depth = tree.depth();
  const int fan_out = static_cast<int>(tree.children(0).size());
  int largest = 0;  // child of the root
  int busiest = 0;  // sends up and down
  for (int v = 1; v < c.ranks; ++v) {
    if (tree.parent(v) == 0) largest = std::max(largest, tree.end(v) - v);
    busiest = std::max(busiest, 1 + static_cast<int>(tree.children(v).size()));
  }
  switch (c.kind) {
    case Kind::gather: return {depth, largest};
    case Kind::scatter: return {depth, c.ranks - 1};
    case Kind::broadcast: return {depth, fan_out};
    case Kind::reduce: return {depth, 1};
    default: return {2 * depth, std::max(fan_out, busiest)};
  }
}

bool suits(const Collective& c) {
  return everyone_reduces(c.kind) || c.kind == Kind::reduce || c.kind == Kind::broadcast ||
         c.kind == Kind::gather || c.kind == Kind::scatter;
}

}  // namespace

Algorithm knomial() {
  return {.name = "knomial",
          .summary = "k-nomial tree, log_k n levels (Thakur, Rabenseifner, Gropp 2005)",
          .radix = true,
          .suits = suits,
          .build = build,
          .cost = cost};
}

}  // namespace weft
