// What algorithms have in common whose ranks touch each other's own buffers: a rank's guests wait
// until it is in the call (on CPUs before they begin: Algorithm::entered), and it does not leave
// before they have been.
#pragma once

#include <vector>

#include "engine/algorithms/words.h"
#include "kernels/reduce.h"

namespace weft {

inline constexpr int kEntered = 0, kDone = 1;  // cells

// Those that touch this rank's memory, from the next one on: touches(peer) says whether one does.
template <class Touches>
std::vector<Rank> guests_of(const Collective& c, Rank me, const Touches& touches) {
  std::vector<Rank> guests;
  for (int i = 1; i < c.ranks; ++i)
    if (const Rank peer = wrap(me + i, c.ranks); touches(peer)) guests.push_back(peer);
  return guests;
}

// The first and the last step of a rank that has guests.
inline void let_in(Lane& lane, const std::vector<Rank>& guests) {
  if (guests.empty()) return;
  Step& step = lane.step(0);
  for (const Rank guest : guests) step.post(guest, kEntered);
}
inline void see_off(Lane& lane, const std::vector<Rank>& guests) {
  if (guests.empty()) return;
  Step& step = lane.step(0);
  for (const Rank guest : guests) step.wait(guest, kDone);
}

// The step touches the memory of `host`, and no later one does.
inline void visit(Step& step, Rank host) { step.wait(host, kEntered).post(host, kDone); }

inline bool may_visit(const Collective& c) {
  if (c.kind == Kind::barrier || c.kind == Kind::exchange) return false;
  if (c.kind == Kind::all_to_all && c.in_place) return false;  // what one reads, another writes
  return c.ranks <= ReduceCall::kMaxSources;
}

inline Cost cost_of_visits(const Collective& c, const Parameters&) {
  if (c.ranks == 1) return {};
  return {2, 0};
}

}  // namespace weft
