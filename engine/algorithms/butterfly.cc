#include "engine/algorithms/butterfly.h"

#include <algorithm>
#include <bit>
#include <iterator>

#include "engine/algorithms/words.h"

namespace weft {
namespace {

struct Shape {
  int owners, core, stages, guests;
  explicit Shape(const Collective& c)
      : core(static_cast<int>(std::bit_floor(static_cast<unsigned>(c.ranks)))),
        stages(std::bit_width(static_cast<unsigned>(core)) - 1),
        guests(c.ranks - core) {
    owners = c.kind == Kind::all_reduce ? core : c.ranks;
  }
  bool has_guest(Rank host) const { return host < guests; }
};

// What a rank of the core has before a stage, sorted.
std::vector<int> held(const Shape& shape, Partner partner, Rank rank, int stage) {
  if (stage == 0) {
    const bool guest = shape.owners > shape.core && shape.has_guest(rank);
    return guest ? std::vector{rank, rank + shape.core} : std::vector{rank};
  }
  const Rank peer = partner(rank, stage - 1, shape.core);
  const std::vector<int> mine = held(shape, partner, rank, stage - 1);
  const std::vector<int> theirs = held(shape, partner, peer, stage - 1);
  std::vector<int> both;
  std::merge(mine.begin(), mine.end(), theirs.begin(), theirs.end(), std::back_inserter(both));
  return both;
}

std::vector<int> all_but(int chunk, int owners) {
  std::vector<int> rest;
  for (int i = 0; i < owners; ++i)
    if (i != chunk) rest.push_back(i);
  return rest;
}

Spreading spreading(const Collective& c, Rank me, Partner partner) {
  const Shape shape(c);
  const bool guests_own = shape.owners > shape.core;
  const int largest = shape.guests == 0 ? shape.core / 2 : shape.owners - (guests_own ? 1 : 0);
  Spreading s{shape.owners, largest, {}};
  if (me >= shape.core) {
    const Rank host = me - shape.core;
    if (guests_own) s.stages.push_back({{.to = host, .gives = {me}}});
    s.stages.push_back({{.from = host, .gets = all_but(me, shape.owners)}});
    return s;
  }
  const Rank guest = me + shape.core;
  if (shape.has_guest(me) && guests_own) s.stages.push_back({{.from = guest, .gets = {guest}}});
  for (int i = 0; i < shape.stages; ++i) {
    const Rank peer = partner(me, i, shape.core);
    s.stages.push_back({{peer, held(shape, partner, me, i), peer, held(shape, partner, peer, i)}});
  }
  if (shape.has_guest(me))
    s.stages.push_back({{.to = guest, .gives = all_but(guest, shape.owners)}});
  return s;
}

// Whether the longest way, one hop in every stage, leads from a guest's host to another.
bool guest_to_guest(const Shape& shape, Partner partner) {
  for (Rank r = 0; r < shape.guests; ++r) {
    Rank at = r;
    for (int i = 0; i < shape.stages; ++i) at = partner(at, i, shape.core);
    if (shape.has_guest(at)) return true;
  }
  return false;
}

// Chunks that the busiest rank sends in an all_gather.
int given_by_busiest(const Shape& shape, Partner partner) {
  const int n = shape.core + shape.guests;
  std::vector<int> has, given(static_cast<size_t>(shape.core), 0);
  for (Rank r = 0; r < shape.core; ++r) has.push_back(shape.has_guest(r) ? 2 : 1);
  for (int i = 0; i < shape.stages; ++i) {
    const std::vector<int> before = has;
    for (Rank r = 0; r < shape.core; ++r) {
      given[r] += before[r];
      has[r] += before[partner(r, i, shape.core)];
    }
  }
  for (Rank host = 0; host < shape.guests; ++host) given[host] += n - 1;
  return *std::max_element(given.begin(), given.end());
}

}  // namespace

Program butterfly(const Collective& c, Rank me, Partner partner) {
  return c.ranks == 1 ? alone(c) : spread(c, me, spreading(c, me, partner));
}

Cost butterfly_cost(const Collective& c, Partner partner) {
  const Shape shape(c);
  const int guests = shape.guests > 0 ? 1 : 0;
  if (c.kind == Kind::all_reduce)
    return {2 * shape.stages + 2 * guests, 2 * (shape.core - 1) + guests * shape.core};
  const int hops = shape.stages + guests + (guest_to_guest(shape, partner) ? 1 : 0);
  return {hops, c.kind == Kind::all_gather ? given_by_busiest(shape, partner) : c.ranks - 1};
}

}  // namespace weft
