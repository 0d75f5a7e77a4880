// Small words that several algorithms are written with.
#pragma once

#include "engine/algorithms/algorithm.h"

namespace weft {

// x modulo n, never negative.
inline int wrap(int x, int n) { return ((x % n) + n) % n; }

// all_reduce, or barrier, which is an all_reduce of one byte.
inline bool everyone_reduces(Kind kind) {
  return kind == Kind::all_reduce || kind == Kind::barrier;
}

inline bool folds(const Collective& c) { return reduces(c.kind) || c.kind == Kind::barrier; }

// Steps for these chunks that share their messages; write(step) says what each does.
template <class Write>
void one_message(Lane& lane, const std::vector<int>& chunks, Write&& write) {
  for (size_t i = 0; i < chunks.size(); ++i) {
    Step& step = lane.step(chunks[i]);
    write(step);
    step.go_on(i + 1 < chunks.size());
  }
}

// What a world of one does.
inline Program alone(const Collective& c) {
  Program program;
  program.lane().step(0).read(input()).write(output()).finished(reduces(c.kind));
  return program;
}

// The rank's own block moves from Input to Output where a collective only moves data.
inline void copy_own(Lane& lane, const Collective& c, int block) {
  if (!c.in_place) lane.step(block).read(input()).write(output());
}

// Algorithm::turn of those that are the same from every rank, where there is no root.
inline int turn_by_one(const Collective& c, const Parameters&) { return has_root(c.kind) ? 0 : 1; }

}  // namespace weft
