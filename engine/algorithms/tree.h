// broadcast, reduce, gather and scatter along any tree: a message per edge, with all blocks that
// belong below it. Hops: the tree's depth.
#pragma once

#include <vector>

#include "engine/algorithms/algorithm.h"

namespace weft {

// Made by joining places, which are ranks counted from the root: place 0 is there.
class Tree {
 public:
  explicit Tree(const Collective& c)
      : ranks_(c.ranks), root_(c.root), parent_(static_cast<size_t>(c.ranks), 0) {}

  // REQUIRES: parent has joined, place has not. Earlier children are served first.
  void join(int place, int parent) {
    parent_[place] = parent;
    order_.push_back(place);
  }
  int joined(int i) const { return order_[i]; }  // the i-th place to join, after the root

  Rank root() const { return root_; }
  Rank parent(Rank rank) const { return rank_at(parent_[place_of(rank)]); }
  std::vector<Rank> children(Rank rank) const;  // in the order in which they joined
  std::vector<Rank> subtree(Rank rank) const;   // the rank itself first
  int depth() const;
  int most_children() const;

 private:
  int place_of(Rank rank) const;
  Rank rank_at(int place) const;

  int ranks_;
  Rank root_;
  std::vector<int> parent_;    // by place
  std::vector<int> order_{0};  // places, each after its parent
};

bool goes_along_tree(const Collective& c);

// REQUIRES: c.ranks > 1, all ranks are in the tree.
Program along_tree(const Collective& c, const Tree& tree, Rank me);
Cost tree_cost(const Collective& c, const Tree& tree);

}  // namespace weft
