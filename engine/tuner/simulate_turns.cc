// Whose turn it is on a core (simulate_cores.h).
#include <algorithm>

#include "engine/tuner/simulate_game.h"

namespace weft::simulation {

void Game::want_core(int lane, double now) {
  const Rank rank = played(lane).rank;
  Core& core = cores_.of(rank);
  const bool looks = core.doing == Doing::looks && core.running == rank;
  if (looks && cores_.sharers(rank) > 1) {
    core.doing = Doing::step;
    return at(now + cores_.look_s(core), lane, Happening::runs);
  }
  if (looks || core.doing == Doing::nothing) return run(lane, now);
  if (core.doing != Doing::sleeps) return core.ready.push_back(lane);
  core.doing = Doing::step;
  core.running = rank;
  at(now + cores_.turn_s(core), lane, Happening::runs);
}

void Game::run(int lane, double now) {
  Core& core = cores_.of(played(lane).rank);
  core.doing = Doing::step;
  core.running = played(lane).rank;
  core.turns = 0;
  LaneState& state = state_of(lane);
  state.began = now;
  const double time = time_of(op_of(state), lane);
  const double tail = std::min(time, tail_of(op_of(state), state));
  if (tail > 0) at(now + time - tail, lane, Happening::leaves);
  at(now + time, lane, Happening::ends);
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
  core.doing = Doing::looks;
  if (cores_.sharers(core.running) == 1) return;
  const Rank awaited = awaited_by(core.running);
  core.awaited = awaited != kNobody && cores_.runs(awaited) ? awaited : kNobody;
  const bool first = core.turns == 0;  // since something was done
  core.until = now + (core.awaited != kNobody ? network_.inside.patience_s
                      : first                 ? cores_.spins_s()
                                              : 0);
  at(core.until, core.running, Happening::gives_way);
}

// The event may be of a look that has ended already.
void Game::lose_patience(Rank rank, double now) {
  Core& core = cores_.of(rank);
  if (core.doing == Doing::looks && core.running == rank && core.until == now) give_way(core, now);
}

void Game::give_way(Core& core, double now) {
  const Rank rank = core.running;
  core.doing = Doing::turns;
  at(now + cores_.turn_s(core), cores_.next(rank), Happening::turns);
  // Nobody keeps a core for it any more, from the next look on.
  cores_.each_beside(rank, [&](Core& theirs) {
    if (theirs.doing != Doing::looks || theirs.awaited != rank) return;
    const double seen = now + network_.inside.latency_s + cores_.look_s(theirs);
    if (seen >= theirs.until) return;
    theirs.until = seen;
    at(seen, theirs.running, Happening::gives_way);
  });
}

void Game::turn(Rank rank, double now) {
  Core& core = cores_.of(rank);
  core.running = rank;
  if (run_ready(core, now)) return;
  if (!core.ready.empty() || ++core.turns <= Cores::kTurns * cores_.sharers(rank))
    return spin(core, now);
  core.doing = Doing::sleeps;
}

// From the end of a call to the next one.
void Game::come_back(Rank rank, double now) {
  make_call(rank, now);
  go_on(cores_.of(rank), now);
}

}  // namespace weft::simulation
