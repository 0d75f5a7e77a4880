// Ring: every rank sends to the next one only, so that every link carries the same load and the
// bandwidth bound is met; the latency grows with n.
//   all_reduce       2(n-1) hops, 2(n-1) of n chunks sent by every rank
//   all_gather       n-1 hops, n-1 blocks;   reduce_scatter the same
//   broadcast        n-1 hops, 1 chunk (a chain, pipelined over rounds);   reduce the same
// Source: P. Patarasuk, X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
// workstations", JPDC 2009.
#include "engine/algorithms/catalog.h"
#include "engine/algorithms/words.h"

namespace weft {
namespace {

struct Neighbours {
  LinkEnd next, prev;
  Neighbours(Rank me, int n) : next{wrap(me + 1, n), 0}, prev{wrap(me - 1, n), 0} {}
};

// After n-1 steps rank r holds chunk r+1 reduced; n-1 more steps pass the results on.
Program all_reduce(const Collective& c, Rank me) {
  const int n = c.ranks;
  const auto [next, prev] = Neighbours(me, n);
  Program program;
  program.pieces = n;
  Lane& lane = program.lane();
  lane.step(me).read(input()).send(next);
  if (n > 2) lane.step(wrap(me - 1, n)).recv(prev).read(input()).send(next).repeat(n - 2, -1);
  lane.step(wrap(me + 1, n)).recv(prev).read(input()).write(output()).send(next).finished();
  if (n > 2) lane.step(me).recv(prev).write(output()).send(next).repeat(n - 2, -1);
  lane.step(wrap(me + 2, n)).recv(prev).write(output());
  return program;
}

Program all_gather(const Collective& c, Rank me) {
  const int n = c.ranks;
  const auto [next, prev] = Neighbours(me, n);
  Program program;
  Lane& lane = program.lane();
  copy_own(lane, c, me);
  lane.step(me).read(input()).send(next);
  if (n > 2) lane.step(wrap(me - 1, n)).recv(prev).write(output()).send(next).repeat(n - 2, -1);
  lane.step(wrap(me + 1, n)).recv(prev).write(output());
  return program;
}

Program reduce_scatter(const Collective& c, Rank me) {
  const int n = c.ranks;
  const auto [next, prev] = Neighbours(me, n);
  Program program;
  Lane& lane = program.lane();
  lane.step(wrap(me - 1, n)).read(input()).send(next);
  if (n > 2) lane.step(wrap(me - 2, n)).recv(prev).read(input()).send(next).repeat(n - 2, -1);
  lane.step(me).recv(prev).read(input()).write(output()).finished();
  return program;
}

// A chain that begins at the root.
Program broadcast(const Collective& c, Rank me) {
  const auto [next, prev] = Neighbours(me, c.ranks);
  Program program;
  Lane& lane = program.lane();
  if (me == c.root) {
    lane.step(0).read(input()).send(next);
    copy_own(lane, c, 0);
  } else {
    Step& step = lane.step(0).recv(prev).write(output());
    if (next.peer != c.root) step.send(next);
  }
  return program;
}

// A chain that ends at the root.
Program reduce(const Collective& c, Rank me) {
  const auto [next, prev] = Neighbours(me, c.ranks);
  Program program;
  Lane& lane = program.lane();
  if (me == c.root)
    lane.step(0).recv(prev).read(input()).write(output()).finished();
  else if (prev.peer == c.root)
    lane.step(0).read(input()).send(next);
  else
    lane.step(0).recv(prev).read(input()).send(next);
  return program;
}

bool suits(const Collective& c) {
  return c.kind == Kind::all_reduce || c.kind == Kind::all_gather ||
         c.kind == Kind::reduce_scatter || c.kind == Kind::broadcast || c.kind == Kind::reduce;
}

Program build(const Collective& c, Rank me, const Parameters&) {
  if (c.ranks == 1) return alone(c);
  switch (c.kind) {
    case Kind::all_reduce: return all_reduce(c, me);
    case Kind::all_gather: return all_gather(c, me);
    case Kind::reduce_scatter: return reduce_scatter(c, me);
    case Kind::broadcast: return broadcast(c, me);
    default: return reduce(c, me);
  }
}

Cost cost(const Collective& c, const Parameters&) {
  const int hops = c.ranks - 1;
  if (c.kind == Kind::all_reduce) return {2 * hops, 2 * hops};
  if (c.kind == Kind::broadcast || c.kind == Kind::reduce) return {hops, hops > 0 ? 1 : 0};
  return {hops, hops};
}

}  // namespace

Algorithm ring() {
  return {.name = "ring",
          .summary = "neighbours only; meets the bandwidth bound (Patarasuk, Yuan 2009)",
          .suits = suits,
          .build = build,
          .cost = cost,
          .turn = turn_by_one};
}

}  // namespace weft
