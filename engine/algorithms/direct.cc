// Direct algorithms over links: every rank sends what another one needs straight to it.
//
// direct_one_shot: one hop; every rank folds all it needs itself.
//   all_reduce, barrier  n-1 chunks (whole messages) sent;   reduce 1
//   all_gather, reduce_scatter, scatter (root)  n-1 blocks;   gather 1;   broadcast (root) n-1
// direct_two_shot (all_reduce): a reduce_scatter and an all_gather of that kind; two hops, 2(n-1)
// of n chunks: it meets the bandwidth bound. Both fold each element in rank order on one rank, and
// round once: canonical. n <= 64 where they fold.
#include "engine/algorithms/catalog.h"
#include "engine/algorithms/words.h"
#include "kernels/reduce.h"

namespace weft {
namespace {

// Whether `to` needs block `b` from `from`.
bool needs(const Collective& c, Rank to, Rank from, int b) {
  return to != from && in_output(c, to, b) && in_input(c, from, b) &&
         (folds(c) || source_of(c, b) == from);
}

// Peers in the order me+1, me+2, ...: so that not all begin with rank 0.
template <class Do>
void for_each_peer(const Collective& c, Rank me, Do&& visit) {
  for (int i = 1; i < c.ranks; ++i) visit(wrap(me + i, c.ranks));
}

void send_all(Lane& lane, const Collective& c, Rank me) {
  for_each_peer(c, me, [&](Rank peer) {
    for (int b = 0; b < blocks(c); ++b)
      if (needs(c, peer, me, b)) lane.step(b).read(input()).send({peer, 0});
  });
}

// The fold of everybody's `chunk`, in rank order; the others' are in scratch slots by rank.
Step& fold_in_rank_order(Lane& lane, const Collective& c, Rank me, int chunk) {
  Step& step = lane.step(chunk);
  for (Rank r = 0; r < c.ranks; ++r) step.read(r == me ? input() : scratch(r));
  return step.write(output()).finished(reduces(c.kind));
}

void recv_and_fold(Lane& lane, const Collective& c, Rank me, int chunk) {
  for_each_peer(c, me, [&](Rank peer) { lane.step(chunk).recv({peer, 0}).write(scratch(peer)); });
  fold_in_rank_order(lane, c, me, chunk);
}

Program one_shot(const Collective& c, Rank me, const Parameters&) {
  if (c.ranks == 1) return alone(c);
  Program program;
  program.scratch_slots = folds(c) ? c.ranks : 0;
  Lane& lane = program.lane();
  send_all(lane, c, me);
  for (int b = 0; b < blocks(c); ++b) {
    if (!in_output(c, me, b)) continue;
    if (folds(c))
      recv_and_fold(lane, c, me, b);
    else if (source_of(c, b) == me)
      copy_own(lane, c, b);
    else
      lane.step(b).recv({source_of(c, b), 0}).write(output());
  }
  return program;
}

bool one_shot_suits(const Collective& c) {
  if (c.kind == Kind::all_to_all || c.kind == Kind::exchange) return false;
  return !folds(c) || c.ranks <= ReduceCall::kMaxSources;
}

Cost one_shot_cost(const Collective& c, const Parameters&) {
  if (c.ranks == 1) return {};
  const bool one_sender_each = c.kind == Kind::reduce || c.kind == Kind::gather;
  return {1, one_sender_each ? 1 : c.ranks - 1};
}

Program two_shot(const Collective& c, Rank me, const Parameters&) {
  if (c.ranks == 1) return alone(c);
  Program program;
  program.pieces = c.ranks;
  program.scratch_slots = c.ranks;
  Lane& lane = program.lane();
  for_each_peer(c, me, [&](Rank peer) { lane.step(peer).read(input()).send({peer, 0}); });
  recv_and_fold(lane, c, me, me);
  for_each_peer(c, me, [&](Rank peer) { lane.step(me).read(output()).send({peer, 1}); });
  for_each_peer(c, me, [&](Rank peer) { lane.step(peer).recv({peer, 1}).write(output()); });
  return program;
}

bool two_shot_suits(const Collective& c) {
  return c.kind == Kind::all_reduce && c.ranks <= ReduceCall::kMaxSources;
}

Cost two_shot_cost(const Collective& c, const Parameters&) {
  if (c.ranks == 1) return {};
  return {2, 2 * (c.ranks - 1)};
}

}  // namespace

Algorithm direct_one_shot() {
  return {.name = "direct_one_shot",
          .summary = "everyone sends to everyone who needs it, over links; folds in rank order",
          .canonical = true,
          .any_counts = true,
          .suits = one_shot_suits,
          .build = one_shot,
          .cost = one_shot_cost};
}

Algorithm direct_two_shot() {
  return {.name = "direct_two_shot",
          .summary = "each rank folds its share in rank order and sends it to all, over links",
          .canonical = true,
          .suits = two_shot_suits,
          .build = two_shot,
          .cost = two_shot_cost};
}

}  // namespace weft
