#include "engine/algorithms/hierarchy.h"

#include <algorithm>
#include <numeric>

#include "engine/algorithms/compose.h"
#include "engine/algorithms/words.h"

namespace weft {
namespace {

// What is done inside nodes before leaders meet and afterwards.
struct Recipe {
  Kind before = Kind::barrier, after = Kind::barrier;  // barrier: nothing
  Buffer collected = Buffer::scratch;                  // where leaders begin
  Buffer met = Buffer::output;                         // and end
};

Recipe recipe(Kind kind) {
  switch (kind) {
    case Kind::all_reduce: return {Kind::reduce, Kind::broadcast};
    case Kind::all_gather: return {Kind::gather, Kind::broadcast, Buffer::output};
    case Kind::reduce_scatter:
      return {Kind::reduce, Kind::scatter, Buffer::scratch, Buffer::scratch};
    case Kind::broadcast: return {Kind::barrier, Kind::broadcast, Buffer::input};
    case Kind::reduce: return {Kind::reduce};
    case Kind::gather: return {Kind::gather};
    default: return {Kind::barrier, Kind::scatter, Buffer::input, Buffer::scratch};
  }
}

bool have_owners(Kind kind) {
  return kind == Kind::all_gather || kind == Kind::reduce_scatter || kind == Kind::gather ||
         kind == Kind::scatter;
}

class Nodes {
 public:
  Nodes(const Collective& c, const Hierarchy& h)
      : members_(1 + *std::max_element(h.node_of_rank.begin(), h.node_of_rank.end())) {
    for (Rank r = 0; r < c.ranks; ++r) members_[h.node_of_rank[r]].push_back(r);
    for (const auto& node : members_) leaders_.push_back(node[0]);
    if (has_root(c.kind)) leaders_[h.node_of_rank[c.root]] = c.root;
  }
  const std::vector<Rank>& leaders() const { return leaders_; }
  const std::vector<std::vector<Rank>>& all() const { return members_; }

 private:
  std::vector<std::vector<Rank>> members_;
  std::vector<Rank> leaders_;
};

Rank index_of(const std::vector<Rank>& ranks, Rank rank) {
  return static_cast<Rank>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
}

std::vector<std::vector<int>> singly(const std::vector<int>& chunks) {
  std::vector<std::vector<int>> blocks;
  for (const int chunk : chunks) blocks.push_back({chunk});
  return blocks;
}

class Composer {
 public:
  Composer(const Collective& c, const Hierarchy& h, Rank me, const Parameters& parameters)
      : c_(c), h_(h), me_(me), parameters_(parameters), nodes_(c, h), recipe_(recipe(c.kind)) {}

  Program program() {
    const auto& leaders = nodes_.leaders();
    const Rank root = has_root(c_.kind) ? index_of(leaders, c_.root) : 0;
    const Collective meeting{c_.kind, static_cast<int>(leaders.size()), root, false};
    program_.lane();
    program_.pieces = h_.between->build(meeting, 0, parameters_).pieces;
    program_.message_chunks = blocks(c_) * program_.pieces;
    all_.resize(static_cast<size_t>(program_.message_chunks));
    std::iota(all_.begin(), all_.end(), 0);
    if (recipe_.before != Kind::barrier)
      inside(recipe_.before, 0, Buffer::input, recipe_.collected);
    add({.algorithm = h_.between,
         .kind = c_.kind,
         .members = leaders,
         .root = root,
         .blocks = have_owners(c_.kind) ? nodes_.all() : std::vector<std::vector<int>>{all_},
         .in = recipe_.collected,
         .out = recipe_.met,
         .finish = true},
        1);
    if (recipe_.after != Kind::barrier) inside(recipe_.after, 2, recipe_.met, Buffer::output);
    return std::move(program_);
  }

 private:
  void inside(Kind kind, int number, Buffer in, Buffer out) {
    const int node = h_.node_of_rank[me_];
    const auto& members = nodes_.all()[node];
    add({.algorithm = h_.inside,
         .kind = kind,
         .members = members,
         .root = index_of(members, nodes_.leaders()[node]),
         .blocks = have_owners(kind) ? singly(members) : std::vector<std::vector<int>>{all_},
         .in = in,
         .out = out},
        number);
  }
  void add(Part part, int number) {
    const bool user = part.in == Buffer::input && part.out == Buffer::output;
    part.in_place = part.in == part.out || (user && c_.in_place);
    append(program_, part, number, me_, static_cast<int>(all_.size()), parameters_);
  }

  const Collective& c_;
  const Hierarchy& h_;
  const Rank me_;
  const Parameters& parameters_;
  const Nodes nodes_;
  const Recipe recipe_;
  Program program_;
  std::vector<int> all_;  // chunks
};

}  // namespace

bool can_compose(const Collective& c, const Hierarchy& h) {
  if (c.kind == Kind::barrier || c.kind == Kind::all_to_all || c.kind == Kind::exchange)
    return false;
  const Nodes nodes(c, h);
  const Recipe r = recipe(c.kind);
  for (const Kind kind : {r.before, r.after})
    for (const auto& members : nodes.all()) {
      if (kind == Kind::barrier) continue;
      const Collective part{kind, static_cast<int>(members.size()), 0, false};
      if (!can_be_part(*h.inside, part) || h.inside->build(part, 0, {}).pieces != 1) return false;
    }
  return can_be_part(*h.between, {c.kind, static_cast<int>(nodes.leaders().size()), 0, false});
}

Program compose(const Collective& c, const Hierarchy& hierarchy, Rank me,
                const Parameters& parameters) {
  return Composer(c, hierarchy, me, parameters).program();
}

}  // namespace weft
