// window_round_trip: who writes a slot of a window is who has read it last.
//
// A line that another core has read has to be claimed back before it can be written, which takes as
// long as reading what the other has written. Here a datum goes through a slot one way and another
// one comes back, so a line changes cores once for each datum, where it does twice in slots that
// always go the same way (window.cc). What comes back:
//
// all_reduce: a rank's operand for a peer's share goes, that share's result comes back, from where
//   the operand was read. Two hops, as the two-shot form, n-1 results written instead of one.
// reduce_scatter, all_to_all, and all_gather of 2 ranks: half of what a rank has for a peer goes,
//   half of what the peer has for it comes back. Two hops, where window_one_shot has one.
//
// The waits order reuse: a rank writes a slot only after its own read, so one half will do, and
// windows go round in less than others': on few ranks in what a core's own cache holds
// (schedule/window_lap.h).
// Canonical: rank order, one rounding. n <= 64 where they fold.
// Source: our own; that lines should stay with who writes them next is what "migratory" data are in
// A. Gupta, W.-D. Weber, "Cache invalidation patterns in shared-memory multiprocessors", IEEE
// Transactions on Computers 41(7), 1992.
#include "engine/algorithms/catalog.h"
#include "engine/algorithms/words.h"
#include "kernels/reduce.h"

namespace weft {
namespace {

constexpr int kThere = 0, kBack = 1;  // cells, and pieces where both carry the same kind of data

// Of the owner's slots the one that it shares with `peer`.
Operand slot(Rank owner, Rank peer) { return window(owner, peer < owner ? peer : peer - 1); }

// Where piece `way` of what `from` has for `to` goes through.
Operand through(int way, Rank from, Rank to) {
  return way == kThere ? slot(from, to) : slot(to, from);
}

void all_reduce(Lane& lane, int n, Rank me) {
  for (int i = 1; i < n; ++i) {
    const Rank peer = wrap(me + i, n);
    lane.step(peer).read(input()).write(slot(me, peer)).post(peer, kThere);
  }
  Step& fold = lane.step(me);
  for (Rank r = 0; r < n; ++r) fold.read(r == me ? input() : slot(r, me));
  fold.write(output()).finished();
  for (int i = 1; i < n; ++i) {
    const Rank peer = wrap(me + i, n);
    fold.wait(peer, kThere).write(slot(peer, me)).post(peer, kBack);
  }
  for (int i = 1; i < n; ++i) {
    const Rank peer = wrap(me + i, n);
    lane.step(peer).read(slot(me, peer)).write(output()).wait(peer, kBack);
  }
}

// The block that a rank has for another one.
int block_for(const Collective& c, Rank from, Rank to) {
  switch (c.kind) {
    case Kind::all_gather: return from;
    case Kind::all_to_all: return from * c.ranks + to;
    default: return to;
  }
}

void put(Lane& lane, const Collective& c, Rank me, int way) {
  for (int i = 1; i < c.ranks; ++i) {
    const Rank peer = wrap(me + i, c.ranks);
    Step& step = lane.step(2 * block_for(c, me, peer) + way).read(input());
    if (c.kind == Kind::all_gather && !c.in_place) step.write(output());
    step.write(through(way, me, peer)).post(peer, way);
  }
}

void take_folded(Lane& lane, const Collective& c, Rank me, int way) {
  Step& step = lane.step(2 * me + way);
  for (Rank r = 0; r < c.ranks; ++r) {
    step.read(r == me ? input() : through(way, r, me));
    if (r != me) step.wait(r, way);
  }
  step.write(output()).finished();
}

void take(Lane& lane, const Collective& c, Rank me, int way) {
  if (c.kind == Kind::all_to_all) copy_own(lane, c, 2 * block_for(c, me, me) + way);
  for (int i = 1; i < c.ranks; ++i) {
    const Rank peer = wrap(me + i, c.ranks);
    lane.step(2 * block_for(c, peer, me) + way)
        .read(through(way, peer, me))
        .write(output())
        .wait(peer, way);
  }
}

Program round_trip(const Collective& c, Rank me, const Parameters&) {
  if (c.ranks == 1) return alone(c);
  Program program;
  program.pieces = c.kind == Kind::all_reduce ? c.ranks : 2;
  program.window_slots = c.ranks - 1;
  Lane& lane = program.lane();
  if (c.kind == Kind::all_reduce) {
    all_reduce(lane, c.ranks, me);
    return program;
  }
  for (const int way : {kThere, kBack}) {
    put(lane, c, me, way);
    folds(c) ? take_folded(lane, c, me, way) : take(lane, c, me, way);
  }
  return program;
}

// What several ranks read cannot come back from all of them.
bool suits(const Collective& c) {
  switch (c.kind) {
    case Kind::all_reduce:
    case Kind::reduce_scatter: return c.ranks <= ReduceCall::kMaxSources;
    case Kind::all_to_all: return true;
    case Kind::all_gather: return c.ranks <= 2;
    default: return false;
  }
}

Cost cost(const Collective& c, const Parameters&) {
  if (c.ranks == 1) return {};
  return {2, 2 * (c.ranks - 1)};
}

}  // namespace

Algorithm window_round_trip() {
  return {.name = "window_round_trip",
          .summary = "who writes a slot has read it last: operands there, results back; or halves",
          .windows = true,
          .lines = false,
          .hands_back = true,
          .canonical = true,
          .suits = suits,
          .build = round_trip,
          .cost = cost};
}

}  // namespace weft
