// Composition: a collective as collectives of some of the ranks, one after the other, each by an
// algorithm of its own.
#pragma once

#include <vector>

#include "engine/algorithms/algorithm.h"

namespace weft {

// A collective of `members`, who are its ranks 0, 1, ... .
struct Part {
  const Algorithm* algorithm = nullptr;
  Kind kind = Kind::all_reduce;
  std::vector<Rank> members;
  Rank root = 0;                         // among the members
  std::vector<std::vector<int>> blocks;  // the chunks that each of its blocks stands for
  Buffer in = Buffer::input;             // scratch: the slot of the chunk
  Buffer out = Buffer::output;
  bool in_place = false;  // in and out are the same memory
  bool finish = false;    // its results are those of the whole
};

// Whether programs of the algorithm can be parts: one lane, links only.
bool can_be_part(const Algorithm& algorithm, const Collective& c);

// Appends `me`'s steps of one part; `number` tells parts of one program apart. REQUIRES: the chunks
// of each block are a multiple of the pieces that the part's algorithm makes.
void append(Program& program, const Part& part, int number, Rank me, int chunks,
            const Parameters& parameters);

}  // namespace weft
