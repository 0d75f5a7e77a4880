#include "engine/algorithms/tree.h"

#include <algorithm>

#include "engine/algorithms/words.h"

namespace weft {

int Tree::place_of(Rank rank) const { return wrap(rank - root_, ranks_); }
Rank Tree::rank_at(int place) const { return wrap(place + root_, ranks_); }

std::vector<Rank> Tree::children(Rank rank) const {
  std::vector<Rank> found;
  for (const int place : order_)
    if (place > 0 && parent_[place] == place_of(rank)) found.push_back(rank_at(place));
  return found;
}

std::vector<Rank> Tree::subtree(Rank rank) const {
  const int top = place_of(rank);
  std::vector<bool> below(static_cast<size_t>(ranks_), false);
  std::vector<Rank> found;
  for (const int place : order_) {
    below[place] = place == top || (place > 0 && below[parent_[place]]);
    if (below[place]) found.push_back(rank_at(place));
  }
  return found;
}

int Tree::depth() const {
  std::vector<int> depth(static_cast<size_t>(ranks_), 0);
  for (const int place : order_)
    if (place > 0) depth[place] = depth[parent_[place]] + 1;
  return *std::max_element(depth.begin(), depth.end());
}

int Tree::most_children() const {
  std::vector<int> children(static_cast<size_t>(ranks_), 0);
  for (const int place : order_)
    if (place > 0) ++children[parent_[place]];
  return *std::max_element(children.begin(), children.end());
}

namespace {

// What goes along the edge above a rank.
std::vector<int> chunks(const Collective& c, const Tree& tree, Rank rank) {
  const bool blocks = c.kind == Kind::gather || c.kind == Kind::scatter;
  return blocks ? tree.subtree(rank) : std::vector{0};
}

void up(Lane& lane, const Collective& c, const Tree& tree, Rank me) {
  std::vector<Rank> children = tree.children(me);
  std::reverse(children.begin(), children.end());
  Operand held = input();
  for (const Rank child : children) {
    const bool to_output =
        me == tree.root() && (c.kind == Kind::gather || child == children.back());
    one_message(lane, chunks(c, tree, child), [&](Step& step) {
      if (step.recv({child, 0}); c.kind == Kind::reduce) step.read(held).finished(to_output);
      step.write(to_output ? output() : scratch(step.chunk));
    });
    if (c.kind == Kind::reduce) held = scratch(0);
  }
  if (me == tree.root() && c.kind == Kind::gather) copy_own(lane, c, me);
  if (me == tree.root()) return;
  one_message(lane, chunks(c, tree, me), [&](Step& step) {
    const bool own = c.kind == Kind::gather && step.chunk == me;
    step.read(own                      ? input()
              : c.kind == Kind::gather ? scratch(step.chunk)
                                       : held)
        .send({tree.parent(me), 0});
  });
}

void down(Lane& lane, const Collective& c, const Tree& tree, Rank me) {
  const auto place = [&](int chunk) {
    return c.kind == Kind::broadcast || chunk == me ? output() : scratch(chunk);
  };
  if (me != tree.root())
    one_message(lane, chunks(c, tree, me), [&](Step& step) {
      step.recv({tree.parent(me), 0}).write(place(step.chunk));
    });
  for (const Rank child : tree.children(me))
    one_message(lane, chunks(c, tree, child), [&](Step& step) {
      step.read(me == tree.root() ? input() : place(step.chunk)).send({child, 0});
    });
  if (me == tree.root()) copy_own(lane, c, c.kind == Kind::scatter ? me : 0);
}

bool goes_up(Kind kind) { return kind == Kind::reduce || kind == Kind::gather; }

// Of all edges: those of the root have the largest subtrees.
int most_chunks(const Collective& c, const Tree& tree) {
  size_t most = 1;
  for (const Rank child : tree.children(tree.root()))
    most = std::max(most, chunks(c, tree, child).size());
  return static_cast<int>(most);
}

}  // namespace

bool goes_along_tree(const Collective& c) {
  return goes_up(c.kind) || c.kind == Kind::broadcast || c.kind == Kind::scatter;
}

Program along_tree(const Collective& c, const Tree& tree, Rank me) {
  Program program;
  program.scratch_slots = c.kind == Kind::broadcast ? 0 : blocks(c);
  program.message_chunks = most_chunks(c, tree);
  goes_up(c.kind) ? up(program.lane(), c, tree, me) : down(program.lane(), c, tree, me);
  return program;
}

Cost tree_cost(const Collective& c, const Tree& tree) {
  const int sent = c.kind == Kind::broadcast ? tree.most_children()
                   : c.kind == Kind::scatter ? c.ranks - 1
                                             : most_chunks(c, tree);
  return {tree.depth(), sent};
}

}  // namespace weft
