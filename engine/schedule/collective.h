// What a collective is: which data each rank begins with and must end with. Pure values, no bytes.
//
// Data has names. A collective's message is `blocks` blocks, each cut into `pieces` pieces; a
// *chunk* is one piece, numbered block * pieces + piece, and carries that number wherever it lies:
//
//   kind             blocks            in Input of           in Output of
//   all_reduce       1                 every rank            every rank
//   reduce           1                 every rank            root
//   broadcast        1                 root                  every rank
//   barrier          1 (one byte)      every rank            every rank
//   all_gather       n, by owner       its owner             every rank
//   reduce_scatter   n, by owner       every rank            its owner
//   gather           n, by owner       its owner             root
//   scatter          n, by owner       root                  its owner
//   all_to_all       n*n, src*n + dst  src                   dst
//   exchange         n*n, src*n + dst  src                   dst     (a group of sends and
//   receives)
//
// In the in-place form Output and Input are one buffer (for all_gather, reduce_scatter, gather and
// scatter: one of them lies inside the other, at the owner's block).
#pragma once

#include <compare>

#include "base/types.h"

namespace weft {

struct Collective {
  Kind kind = Kind::all_reduce;
  int ranks = 1;
  Rank root = 0;  // 0 where the kind has none
  bool in_place = false;

  friend auto operator<=>(const Collective&, const Collective&) = default;
};

// Whether every ordered pair of ranks has a block of its own.
inline bool pairwise(Kind kind) { return kind == Kind::all_to_all || kind == Kind::exchange; }
int blocks(const Collective& c);
// Blocks of a call's count in a message, as sizes are told: 1, or one for each rank.
int message_blocks(Kind kind, int ranks);
// Blocks of a call's count in a rank's Input and Output together, of all ranks on average.
double buffer_blocks(Kind kind, int ranks);

// Whether block `b` is part of rank's Input (Output).
bool in_input(const Collective& c, Rank rank, int block);
bool in_output(const Collective& c, Rank rank, int block);

// Whether the rank has an Input (Output) at all.
bool has_input(const Collective& c, Rank rank);
bool has_output(const Collective& c, Rank rank);

// The one rank that a block comes from, where the kind does not reduce.
Rank source_of(const Collective& c, int block);

// Where block `b` lies in rank's Input (Output), counted in blocks of that buffer. In the in-place
// form equal places are the same memory.
int place_in_input(const Collective& c, Rank rank, int block);
int place_in_output(const Collective& c, Rank rank, int block);

}  // namespace weft
