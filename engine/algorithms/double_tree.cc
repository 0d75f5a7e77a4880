// Pipelined double binary tree: two binary trees over the same ranks, each carrying half of the
// message, such that a rank that is interior in one is a leaf in the other (but for one rank when
// the number of ranks is even). Every rank sends about as much as it receives, and the depth is
// logarithmic. The root sits above both trees and has one child in each.
//   broadcast, reduce   at most ceil(log2 n) + 1 hops;   all_reduce twice that
//   chunks (halves of the message) sent by the busiest rank: broadcast 3, reduce 2, all_reduce 5
// Source: P. Sanders, J. Speck, J. L. Traeff, "Two-tree algorithms for full bandwidth broadcast,
// reduction and scan", Parallel Computing 2009.
#include <algorithm>

#include "engine/algorithms/catalog.h"
#include "engine/algorithms/words.h"

namespace weft {
namespace {

// Places in a tree: 0 is the root, 1 .. n-1 are an in-order binary tree in which odd places are
// leaves; the lowest set bit of a place is twice its distance to its children.
int parent_place(int place, int n) {
  const int bit = place & -place;
  const int up = (place ^ bit) | (bit << 1);
  return up < n ? up : place ^ bit;
}

// One of the two trees, seen by ranks. Tree 1 is tree 0 mirrored, or shifted by one place where a
// mirror would not move leaves onto interior places.
class Tree {
 public:
  Tree(int n, Rank root, int which) : n_(n), root_(root), which_(which) {}

  Rank parent(Rank rank) const { return rank_at(parent_place(place_of(rank), n_)); }

  std::vector<Rank> children(Rank rank) const {
    std::vector<Rank> found;
    const int place = place_of(rank);
    const auto look_at = [&](int p) {
      if (p > 0 && p < n_ && parent_place(p, n_) == place) found.push_back(rank_at(p));
    };
    // A child's lowest bit is how far it is away.
    for (int64_t away = int64_t{1} << 30; away > 0; away /= 2)
      if (away < n_) look_at(place - static_cast<int>(away));
    for (int64_t away = 1; away < n_; away *= 2) look_at(place + static_cast<int>(away));
    return found;
  }

  int depth() const {
    int deepest = 0;
    for (int p = 1; p < n_; ++p) {
      int hops = 0;
      for (int q = p; q != 0; q = parent_place(q, n_)) ++hops;
      deepest = std::max(deepest, hops);
    }
    return deepest;
  }

 private:
  int place_of(Rank rank) const {
    const int v = wrap(rank - root_, n_);
    if (which_ == 0 || v == 0) return v;
    return n_ % 2 == 1 ? n_ - v : v % (n_ - 1) + 1;
  }
  Rank rank_at(int place) const {
    int v = place;
    if (which_ == 1 && place != 0) v = n_ % 2 == 1 ? n_ - place : wrap(place - 2, n_ - 1) + 1;
    return wrap(v + root_, n_);
  }

  int n_;
  Rank root_;
  int which_;
};

constexpr int kUp = 0, kDown = 1;

// Tree t uses links 2t (up) and 2t + 1 (down); each of the two directions is a lane of its own, so
// that rounds flow through the tree behind each other.
LinkEnd link(Rank peer, int tree, int direction) { return {peer, 2 * tree + direction}; }

// Folds what the children send with this rank's input; the last step is left open for the caller.
Step& fold_children(Lane& lane, const Tree& tree, int t, Rank me) {
  const std::vector<Rank> children = tree.children(me);
  if (children.empty()) return lane.step(t).read(input());
  Operand held = input();
  for (size_t i = 0; i + 1 < children.size(); ++i) {
    lane.step(t).recv(link(children[i], t, kUp)).read(held).write(scratch(t));
    held = scratch(t);
  }
  return lane.step(t).recv(link(children.back(), t, kUp)).read(held);
}

void pass_down(Lane& lane, const Tree& tree, int t, Rank me) {
  const std::vector<Rank> children = tree.children(me);
  Step& first = lane.step(t).recv(link(tree.parent(me), t, kDown)).write(output());
  if (!children.empty()) first.send(link(children[0], t, kDown));
  for (size_t i = 1; i < children.size(); ++i)
    lane.step(t).read(output()).send(link(children[i], t, kDown));
}

void root_lane(Lane& lane, const Collective& c, const Tree& tree, int t) {
  if (c.kind == Kind::broadcast) {
    lane.step(t).read(input()).send(link(tree.children(c.root)[0], t, kDown));
    copy_own(lane, c, t);
    return;
  }
  Step& last = fold_children(lane, tree, t, c.root).write(output()).finished();
  if (c.kind == Kind::all_reduce) last.send(link(tree.children(c.root)[0], t, kDown));
}

Program build(const Collective& c, Rank me, const Parameters&) {
  if (c.ranks == 1) return alone(c);
  Program program;
  program.pieces = 2;
  program.scratch_slots = 2;
  for (int t = 0; t < 2; ++t) {
    const Tree tree(c.ranks, c.root, t);
    if (me == c.root) {
      root_lane(program.lane(), c, tree, t);
      continue;
    }
    if (c.kind != Kind::broadcast)
      fold_children(program.lane(), tree, t, me).send(link(tree.parent(me), t, kUp));
    if (c.kind != Kind::reduce) pass_down(program.lane(), tree, t, me);
  }
  return program;
}

Cost cost(const Collective& c, const Parameters&) {
  if (c.ranks == 1) return {};
  const Tree trees[2] = {Tree(c.ranks, c.root, 0), Tree(c.ranks, c.root, 1)};
  const int depth = std::max(trees[0].depth(), trees[1].depth());
  int busiest = 0;
  for (Rank r = 0; r < c.ranks; ++r) {
    int sent = 0;
    for (const Tree& tree : trees) {
      if (c.kind != Kind::broadcast && r != c.root) ++sent;
      if (c.kind != Kind::reduce) sent += static_cast<int>(tree.children(r).size());
    }
    busiest = std::max(busiest, sent);
  }
  return {c.kind == Kind::all_reduce ? 2 * depth : depth, busiest};
}

bool suits(const Collective& c) {
  return c.kind == Kind::all_reduce || c.kind == Kind::broadcast || c.kind == Kind::reduce;
}

}  // namespace

Algorithm double_tree() {
  return {.name = "double_tree",
          .summary = "two complementary binary trees, pipelined (Sanders, Speck, Traeff 2009)",
          .suits = suits,
          .build = build,
          .cost = cost};
}

}  // namespace weft
