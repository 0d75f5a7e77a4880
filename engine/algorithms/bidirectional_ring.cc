// Bidirectional ring: what a rank has travels both ways round at once and meets at the far side, so
// that both directions of every link are used and the way is half as long as in a ring.
//   all_gather       floor(n/2) hops, n-1 blocks;   reduce_scatter the same
//   all_reduce       2 floor(n/2) hops, 2(n-1) of n chunks
//   broadcast        floor(n/2) hops, 2 chunks (two chains from the root);   reduce 1 chunk
// Source: the ring of P. Patarasuk and X. Yuan (JPDC 2009) in both directions.
#include "engine/algorithms/catalog.h"
#include "engine/algorithms/spread.h"
#include "engine/algorithms/words.h"

namespace weft {
namespace {

// In stage s what is s ranks behind goes on to the next rank, and what is s ahead to the previous.
Spreading both_ways(int n, Rank me) {
  const Rank next = wrap(me + 1, n), prev = wrap(me - 1, n);
  Spreading s{n, 1, {}};
  for (int i = 0; i < n / 2; ++i) {
    const Trade onwards{next, {wrap(me - i, n)}, prev, {wrap(me - i - 1, n)}};
    const Trade backwards{prev, {wrap(me + i, n)}, next, {wrap(me + i + 1, n)}};
    s.stages.push_back({onwards});
    if (2 * (i + 1) < n) s.stages.back().push_back(backwards);  // else both would meet there
  }
  return s;
}

// Two chains from the root: this rank's place in one of them.
struct Link {
  LinkEnd near, far;  // towards the root, and away from it; the far end has none
  Link(const Collective& c, Rank me) {
    const int n = c.ranks, ahead = wrap(me - c.root, n);
    const int way = ahead <= n / 2 ? 1 : -1;
    near = {wrap(me - way, n), 0};
    if (ahead != n / 2 && ahead != n / 2 + 1) far = {wrap(me + way, n), 0};
  }
};

void broadcast(Lane& lane, const Collective& c, Rank me) {
  const int n = c.ranks;
  if (me == c.root) {
    lane.step(0).read(input()).send({wrap(me + 1, n), 0});
    if (n > 2) lane.step(0).read(input()).send({wrap(me - 1, n), 0});
    copy_own(lane, c, 0);
    return;
  }
  const Link link(c, me);
  lane.step(0).recv(link.near).write(output()).send(link.far);
}

void reduce(Lane& lane, const Collective& c, Rank me) {
  const int n = c.ranks;
  if (me == c.root) {
    const LinkEnd next{wrap(me + 1, n), 0}, prev{wrap(me - 1, n), 0};
    if (n > 2) lane.step(0).recv(prev).read(input()).write(scratch(0));
    lane.step(0).recv(next).read(n > 2 ? scratch(0) : input()).write(output()).finished();
    return;
  }
  const Link link(c, me);
  lane.step(0).recv(link.far).read(input()).send(link.near);
}

bool suits(const Collective& c) {
  return can_spread(c) || c.kind == Kind::broadcast || c.kind == Kind::reduce;
}

Program build(const Collective& c, Rank me, const Parameters&) {
  if (c.ranks == 1) return alone(c);
  if (can_spread(c)) return spread(c, me, both_ways(c.ranks, me));
  Program program;
  program.scratch_slots = 1;
  c.kind == Kind::broadcast ? broadcast(program.lane(), c, me) : reduce(program.lane(), c, me);
  return program;
}

Cost cost(const Collective& c, const Parameters&) {
  const int n = c.ranks, hops = n / 2;
  if (c.kind == Kind::all_reduce) return {2 * hops, 2 * (n - 1)};
  if (can_spread(c)) return {hops, n - 1};
  if (c.kind == Kind::broadcast) return {hops, n > 2 ? 2 : hops};
  return {hops, n > 1 ? 1 : 0};
}

}  // namespace

Algorithm bidirectional_ring() {
  return {.name = "bidirectional_ring",
          .summary = "both ways round at once, half as many hops as a ring",
          .suits = suits,
          .build = build,
          .cost = cost,
          .turn = turn_by_one};
}

}  // namespace weft
