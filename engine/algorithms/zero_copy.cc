// Between the callers' own buffers, where every rank has every other's mapped: no copy in, no copy
// out.
//
// Every chunk has one rank that works on it: it reads the chunk in all Inputs that count, folds
// them in rank order, and writes the result to every Output that holds the chunk. Kinds of one
// block are cut into a piece per rank; else the worker is the owner of the block that is read or
// written. So every rank reads and writes the same amount, each element of a result is written
// once, and no element of an Input is read by two ranks. n <= 64.
// Two hops: a worker waits until those are in the call whose memory it touches; nobody leaves while
// others touch its own.
#include <algorithm>

#include "engine/algorithms/catalog.h"
#include "engine/algorithms/visits.h"

namespace weft {
namespace {

int pieces_of(const Collective& c) { return blocks(c) == 1 ? c.ranks : 1; }

Rank worker_of(const Collective& c, int chunk) {
  switch (c.kind) {
    case Kind::all_to_all: return chunk % c.ranks;  // the receiver
    default: return chunk;                          // a piece of the one block, or the owner
  }
}

// What its worker reads and writes.
struct Operands {
  std::vector<Rank> inputs, outputs;
  bool touch(Rank rank) const {
    return std::find(inputs.begin(), inputs.end(), rank) != inputs.end() ||
           std::find(outputs.begin(), outputs.end(), rank) != outputs.end();
  }
};

Operands operands_of(const Collective& c, int chunk) {
  const int block = chunk / pieces_of(c);
  Operands operands;
  for (Rank r = 0; r < c.ranks; ++r)
    if (in_input(c, r, block) && (folds(c) || source_of(c, block) == r))
      operands.inputs.push_back(r);
  // The worker's own first, and not all with the same one.
  for (int i = 0; i < c.ranks; ++i)
    if (const Rank r = wrap(worker_of(c, chunk) + i, c.ranks); in_output(c, r, block))
      operands.outputs.push_back(r);
  return operands;
}

// In the order me+1, me+2, ... of sources, so that not all begin with the same one.
std::vector<int> chunks_of_worker(const Collective& c, Rank me) {
  if (c.kind != Kind::all_to_all) return {me};
  std::vector<int> chunks;
  for (int i = 1; i <= c.ranks; ++i) chunks.push_back(wrap(me + i, c.ranks) * c.ranks + me);
  return chunks;
}

bool touches(const Collective& c, Rank worker, Rank peer) {
  const std::vector<int> chunks = chunks_of_worker(c, worker);
  return std::any_of(chunks.begin(), chunks.end(),
                     [&](int chunk) { return operands_of(c, chunk).touch(peer); });
}

// A peer's memory is named by its rank, this one's own is not.
Operand of(Operand operand, Rank rank, Rank me) {
  if (rank != me) operand.rank = rank;
  return operand;
}

void work(Lane& lane, const Collective& c, Rank me, int chunk) {
  const Operands operands = operands_of(c, chunk);
  Step& step = lane.step(chunk);
  for (const Rank r : operands.inputs) step.read(of(input(), r, me));
  for (const Rank r : operands.outputs) step.write(of(output(), r, me));
  step.finished(reduces(c.kind));
  for (Rank peer = 0; peer < c.ranks; ++peer)
    if (peer != me && operands.touch(peer)) visit(step, peer);
}

Program build(const Collective& c, Rank me, const Parameters&) {
  if (c.ranks == 1) return alone(c);
  Program program;
  program.pieces = pieces_of(c);
  Lane& lane = program.lane();
  const std::vector<Rank> guests =
      guests_of(c, me, [&](Rank peer) { return touches(c, peer, me); });
  let_in(lane, guests);
  for (const int chunk : chunks_of_worker(c, me)) work(lane, c, me, chunk);
  see_off(lane, guests);
  return program;
}

}  // namespace

Algorithm zero_copy() {
  return {.name = "zero_copy",
          .summary =
              "each chunk goes from the ranks' own inputs to their own outputs at once; "
              "folds in rank order",
          .windows = true,
          .lines = false,
          .registered = true,
          .entered = kEntered,
          .canonical = true,
          .suits = may_visit,
          .build = build,
          .cost = cost_of_visits};
}

}  // namespace weft
