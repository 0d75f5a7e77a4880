// What the lowerings of a program have in common, whatever it is lowered for.
#pragma once

#include "engine/executor/layout.h"
#include "engine/executor/plan.h"
#include "engine/schedule/schedule.h"

namespace weft {

// What a collective does with several operands, if anything.
struct Arithmetic {
  bool folds = false;  // else every value has one operand, which is copied
  ReduceOp op = ReduceOp::sum;
  int64_t divisor = 1;
  bool scales = false;  // premulsum
};
Arithmetic arithmetic_of(const PlanRequest& request);

bool has_signals(const Program& program);
bool has_links(const Program& program);
// Whether the operand is the rank's own Input or Output.
bool is_own_buffer(const Operand& operand, Rank me);
bool is_peers_buffer(const Operand& operand, Rank me);

// Elements of the largest chunk that the lane touches.
size_t largest_chunk(const Lane& lane, const Layout& layout, int chunks);
// Of the program. With windows: of the collective, because rounds and slots are the same on all
// ranks.
size_t largest_chunk(const Program& program, const Layout& layout, int chunks, bool windows);

inline size_t round_down(size_t x, size_t multiple) { return x / multiple * multiple; }
inline size_t round_up(size_t x, size_t multiple) { return round_down(x + multiple - 1, multiple); }

// Elements per chunk and round: those asked for, but no more than the largest chunk, in whole
// granules.
size_t cut(size_t asked, size_t largest, size_t granule);
// What of `room` is used: whole granules if there is one.
inline size_t whole_granules(size_t room, size_t granule) {
  return room > granule ? round_down(room, granule) : room;
}

// Whether the call's layout and operation let a rank touch a peer's Input or Output; `shared`:
// whether all ranks have those mapped.
Status check_peers_buffer(const PlanRequest& request, const Operand& operand, const Layout& layout,
                          bool shared);

}  // namespace weft
