// Direct algorithms over windows: a rank copies what others need into its own window, once, and
// they read it there, folding several operands in registers.
//
// window_one_shot: one hop (the signal). all_reduce copies n elements in and reads n-1 times as
//   many. Rounds use the window's halves in turn, so that a rank can fill one while slow readers
//   still read another. Where everybody waits for everybody in every round, two would order that;
//   where the pattern is not symmetric (a root), readers say when they are done.
// window_two_shot (all_reduce): every rank folds its own share and puts the result into its window;
//   two hops, 2(n-1) of n chunks read per rank. The waits inside a round order reuse.
// There are more halves than order needs, so that a core has done with as much as its own cache
// holds before it writes a line again: what another core has just read or written there comes at
// half the speed of what lies in the cache that both share (docs/experiments.md).
// Both are canonical: rank order, one rounding. n <= 64 where they fold.
// Source for the two-shot form: S. Li, T. Hoefler, M. Snir, "NUMA-aware shared-memory collective
// communication for MPI", HPDC 2013 (each thread reduces one part, all copy out).
#include <algorithm>

#include "engine/algorithms/catalog.h"
#include "engine/algorithms/words.h"
#include "kernels/reduce.h"

namespace weft {
namespace {

constexpr int kFilled = 0, kDone = 1;  // cells
constexpr int kHalves = 4;

// A rank that puts several blocks has a slot for each receiver; else one slot for all.
bool slot_per_receiver(Kind kind) {
  return kind == Kind::reduce_scatter || kind == Kind::scatter || kind == Kind::all_to_all;
}

Rank receiver(const Collective& c, int block) {
  return c.kind == Kind::all_to_all ? block % c.ranks : block;
}

int slot_of(const Collective& c, int block) {
  return slot_per_receiver(c.kind) ? receiver(c, block) : 0;
}

bool symmetric(Kind kind) { return !has_root(kind); }

// Whether `from` puts block b for others, and whether `to` takes it.
bool puts(const Collective& c, Rank from, int b) {
  if (!in_input(c, from, b) || !(folds(c) || source_of(c, b) == from)) return false;
  for (Rank r = 0; r < c.ranks; ++r)
    if (r != from && in_output(c, r, b)) return true;
  return false;
}

std::vector<Rank> readers_of(const Collective& c, Rank from, int b) {
  std::vector<Rank> readers;
  if (slot_per_receiver(c.kind)) return {receiver(c, b)};
  for (int i = 1; i < c.ranks; ++i)
    if (const Rank r = wrap(from + i, c.ranks); in_output(c, r, b)) readers.push_back(r);
  return readers;
}

// In the order me+1, me+2, ... of receivers, so that not all begin with the same one.
std::vector<int> blocks_put(const Collective& c, Rank me) {
  std::vector<int> found;
  for (int i = 0; i < blocks(c); ++i) {
    const bool own_row = c.kind == Kind::all_to_all;
    const int b =
        own_row ? (i / c.ranks) * c.ranks + wrap(me + i, c.ranks) : wrap(me + i, blocks(c));
    if (puts(c, me, b)) found.push_back(b);
  }
  return found;
}

// Whether a block that `me` puts also goes to its own Output, in the same step.
bool keeps(const Collective& c, Rank me, int b) {
  return !folds(c) && !c.in_place && in_output(c, me, b);
}

void put(Lane& lane, const Collective& c, Rank me) {
  for (const int b : blocks_put(c, me)) {
    Step& step = lane.step(b).read(input());
    if (keeps(c, me, b)) step.write(output());
    step.write(window(me, slot_of(c, b)));
    for (const Rank reader : readers_of(c, me, b)) {
      if (!symmetric(c.kind)) step.wait(reader, kDone, /*lag=*/kHalves);
      step.post(reader, kFilled);
    }
  }
}

void take_folded(Lane& lane, const Collective& c, Rank me, int b) {
  Step& step = lane.step(b);
  for (Rank r = 0; r < c.ranks; ++r) {
    step.read(r == me ? input() : window(r, slot_of(c, b)));
    if (r == me) continue;
    step.wait(r, kFilled);
    if (!symmetric(c.kind)) step.post(r, kDone);
  }
  step.write(output()).finished(reduces(c.kind));
}

void take(Lane& lane, const Collective& c, Rank me, int b) {
  const Rank from = source_of(c, b);
  if (from == me) {
    if (!puts(c, me, b)) copy_own(lane, c, b);
    return;
  }
  Step& step = lane.step(b).read(window(from, slot_of(c, b))).write(output()).wait(from, kFilled);
  if (!symmetric(c.kind)) step.post(from, kDone);
}

// What is one's own first, while the others may still be on their way; then from me+1, me+2, ...,
// so that not all begin with the same one.
std::vector<int> blocks_taken(const Collective& c, Rank me) {
  std::vector<int> taken;
  for (int b = 0; b < blocks(c); ++b)
    if (in_output(c, me, b)) taken.push_back(b);
  const auto distance = [&](int b) { return wrap(source_of(c, b) - me + c.ranks, c.ranks); };
  if (!folds(c))
    std::stable_sort(taken.begin(), taken.end(),
                     [&](int a, int b) { return distance(a) < distance(b); });
  return taken;
}

Program one_shot(const Collective& c, Rank me, const Parameters&) {
  if (c.ranks == 1) return alone(c);
  Program program;
  program.window_slots = slot_per_receiver(c.kind) ? c.ranks : 1;
  program.window_halves = kHalves;
  Lane& lane = program.lane();
  put(lane, c, me);
  for (const int b : blocks_taken(c, me))
    folds(c) ? take_folded(lane, c, me, b) : take(lane, c, me, b);
  return program;
}

bool one_shot_suits(const Collective& c) {
  if (c.kind == Kind::exchange) return false;
  return !folds(c) || c.ranks <= ReduceCall::kMaxSources;
}

Cost one_shot_cost(const Collective& c, const Parameters&) {
  if (c.ranks == 1) return {};
  return {1, slot_per_receiver(c.kind) ? c.ranks - 1 : 1};
}

constexpr int kShareFilled = 0, kShareFolded = 1;  // cells

Program two_shot(const Collective& c, Rank me, const Parameters&) {
  const int n = c.ranks;
  if (n == 1) return alone(c);
  Program program;
  program.pieces = n;
  program.window_slots = n;
  program.window_halves = kHalves;
  Lane& lane = program.lane();
  for (int i = 1; i < n; ++i) {
    const Rank peer = wrap(me + i, n);
    lane.step(peer).read(input()).write(window(me, peer)).post(peer, kShareFilled);
  }
  Step& fold = lane.step(me);
  for (Rank r = 0; r < n; ++r) {
    fold.read(r == me ? input() : window(r, me));
    if (r != me) fold.wait(r, kShareFilled).post(r, kShareFolded);
  }
  fold.write(output()).write(window(me, me)).finished();
  for (int i = 1; i < n; ++i) {
    const Rank peer = wrap(me + i, n);
    lane.step(peer).read(window(peer, peer)).write(output()).wait(peer, kShareFolded);
  }
  return program;
}

bool two_shot_suits(const Collective& c) {
  return c.kind == Kind::all_reduce && c.ranks <= ReduceCall::kMaxSources;
}

Cost two_shot_cost(const Collective& c, const Parameters&) {
  if (c.ranks == 1) return {};
  return {2, c.ranks};
}

}  // namespace

Algorithm window_one_shot() {
  return {.name = "window_one_shot",
          .summary = "everyone reads what it needs in the others' windows; folds in rank order",
          .windows = true,
          .canonical = true,
          .suits = one_shot_suits,
          .build = one_shot,
          .cost = one_shot_cost};
}

Algorithm window_two_shot() {
  return {.name = "window_two_shot",
          .summary = "each rank folds its share out of all windows, all copy the results",
          .windows = true,
          .canonical = true,
          .suits = two_shot_suits,
          .build = two_shot,
          .cost = two_shot_cost};
}

}  // namespace weft
