// Whose turn it is on a core (simulate_cores.h).
#include <algorithm>

#include "engine/tuner/simulate_game.h"

namespace weft::simulation {

void Game::want_core(int lane, double now) {
  const Rank rank = played(lane).rank;
  Core& core = cores_.of(rank);
  const bool at_once = core.running == kNobody || (core.spinning && core.running == rank);
  if (at_once) return run(lane, now);
  if (!core.asleep) return core.ready.push_back(lane);
  core.asleep = false;
  core.running = rank;
  core.free = now + cores_.turn_s();
  at(core.free, lane, Happening::runs);
}

void Game::run(int lane, double now) {
  Core& core = cores_.of(played(lane).rank);
  core.running = played(lane).rank;
  core.spinning = false;
  core.turns = 0;
  LaneState& state = state_of(lane);
  state.began = now;
  const double time = time_of(op_of(state), lane);
  core.free = now + time;
  const double tail = std::min(time, tail_of(op_of(state), state));
  if (tail > 0) at(core.free - tail, lane, Happening::leaves);
  at(core.free, lane, Happening::ends);
}

// The core's rank is done with a step: another lane of it, or it waits.
void Game::go_on(Core& core, double now) {
  if (!run_ready(core, now)) spin(core, now);
}

bool Game::run_ready(Core& core, double now) {
  const auto next = std::find_if(core.ready.begin(), core.ready.end(),
                                 [&](int lane) { return played(lane).rank == core.running; });
  if (next == core.ready.end()) return false;
  const int lane = *next;
  core.ready.erase(next);
  run(lane, now);
  return true;
}

// Whom the rank waits for, as its executor says: of several lanes the last one that waits.
Rank Game::awaited_by(Rank rank) const {
  const RankState& state = ranks_[static_cast<size_t>(rank)];
  if (state.awaited != kNobody) return state.awaited;
  for (int lane = state.first_lane + state.lanes; lane-- > state.first_lane;) {
    const LaneState& at = lanes_[static_cast<size_t>(lane)];
    if (at.round < at.rounds && at.awaited != kNobody) return at.awaited;
  }
  return kNobody;
}

// The core's rank has found nothing to do.
void Game::spin(Core& core, double now) {
  core.spinning = true;
  core.turning = false;
  ++core.spell;
  if (cores_.sharers(core.running) == 1) return;
  const Rank awaited = awaited_by(core.running);
  core.awaited = awaited != kNobody && cores_.runs(awaited) ? awaited : kNobody;
  const double patience = core.awaited != kNobody ? network_.patience_s : 0;
  at(now + patience, core.running, Happening::gives_way, core.spell);
}

void Game::give_way(Rank rank, uint64_t spell, double now) {
  Core& core = cores_.of(rank);
  if (!core.spinning || core.spell != spell) return;
  core.spinning = false;
  core.turning = true;
  at(now + cores_.turn_s(), cores_.next(rank), Happening::turns);
  // Nobody keeps a core for it any more.
  cores_.each_beside(rank, [&](Core& theirs) {
    if (theirs.spinning && theirs.awaited == rank) give_way(theirs.running, theirs.spell, now);
  });
}

void Game::turn(Rank rank, double now) {
  Core& core = cores_.of(rank);
  core.running = rank;
  core.turning = false;
  if (run_ready(core, now)) return;
  if (!core.ready.empty() || ++core.turns <= Cores::kTurns * cores_.sharers(rank))
    return spin(core, now);
  core.asleep = true;
}

// From the end of a call to the next one.
void Game::come_back(Rank rank, double now) {
  Core& core = cores_.of(rank);
  core.held = false;
  make_call(rank, now);
  go_on(core, now);
}

}  // namespace weft::simulation
