#include "engine/algorithms/compose.h"

#include <algorithm>

namespace weft {
namespace {

constexpr int kParts = 3;  // of one program, at most: their links have ids of their own

Collective collective_of(const Part& part) {
  return {part.kind, static_cast<int>(part.members.size()), part.root, part.in_place};
}

class Embedding {
 public:
  Embedding(const Part& part, const Program& inner, int number, int chunks)
      : part_(part), inner_(inner), number_(number), chunks_(chunks) {
    for (const auto& block : part.blocks) longest_ = std::max(longest_, length(block));
  }

  int scratch_slots() const { return chunks_ + inner_.scratch_slots * longest_; }

  // One step for each chunk that the inner step's piece stands for.
  void append(Lane& lane, const Step& inner, int inner_chunk) const {
    const auto& block = part_.blocks[static_cast<size_t>(inner_chunk / inner_.pieces)];
    const int count = length(block), first = inner_chunk % inner_.pieces * count;
    for (int i = 0; i < count; ++i) {
      Step& step = lane.step(block[static_cast<size_t>(first + i)]);
      step.recv(end(inner.from)).send(end(inner.to)).finished(inner.finish && part_.finish);
      for (const Operand& o : inner.sources) step.read(place(o, step.chunk, i));
      for (const Operand& o : inner.targets) step.write(place(o, step.chunk, i));
      const bool linked = inner.from.used() || inner.to.used();
      step.go_on(linked && (inner.more || i + 1 < count));
    }
  }

 private:
  int length(const std::vector<int>& block) const {
    return static_cast<int>(block.size()) / inner_.pieces;
  }
  LinkEnd end(const LinkEnd& inner) const {
    if (!inner.used()) return {};
    return {part_.members[static_cast<size_t>(inner.peer)], inner.id * kParts + number_};
  }
  Operand place(const Operand& o, int chunk, int i) const {
    if (o.buffer == Buffer::scratch) return scratch(chunks_ + o.slot * longest_ + i);
    const Buffer buffer = o.buffer == Buffer::input ? part_.in : part_.out;
    return {buffer, -1, buffer == Buffer::scratch ? chunk : 0};
  }

  const Part& part_;
  const Program& inner_;
  const int number_;
  const int chunks_;
  int longest_ = 0;
};

}  // namespace

bool can_be_part(const Algorithm& algorithm, const Collective& c) {
  if (algorithm.windows || !algorithm.suits(c)) return false;
  for (Rank r = 0; r < c.ranks; ++r)
    if (algorithm.build(c, r, {}).lanes.size() != 1) return false;
  return true;
}

void append(Program& program, const Part& part, int number, Rank me, int chunks,
            const Parameters& parameters) {
  const auto found = std::find(part.members.begin(), part.members.end(), me);
  if (found == part.members.end()) return;
  const auto index = static_cast<Rank>(found - part.members.begin());
  const Program inner = part.algorithm->build(collective_of(part), index, parameters);
  const Embedding embedding(part, inner, number, chunks);
  program.scratch_slots = std::max(program.scratch_slots, embedding.scratch_slots());
  const int inner_chunks = static_cast<int>(part.blocks.size()) * inner.pieces;
  for (const Step& step : inner.lanes[0].steps)
    for (int i = 0; i < step.times; ++i)
      embedding.append(program.lanes[0], step, chunk_at(step, i, inner_chunks));
}

}  // namespace weft
