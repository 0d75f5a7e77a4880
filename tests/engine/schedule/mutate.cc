#include "tests/engine/schedule/mutate.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace weft {
namespace {

// Where and how, drawn once and then applied to one rank or to all.
struct Draw {
  int lane, step, pick, other;
};

struct Site {
  Schedule& schedule;
  Rank rank;
  Draw draw;
  Program& program() { return schedule.programs[rank]; }
  Lane& lane() { return program().lanes[draw.lane]; }
  std::vector<Step>& steps() { return lane().steps; }
  Step& step() { return steps()[draw.step]; }
  int ranks() const { return schedule.collective.ranks; }
};

template <class T>
T& pick(std::vector<T>& list, int index) {
  return list[index % list.size()];
}
template <class T>
void drop(std::vector<T>& list, int index) {
  if (!list.empty()) list.erase(list.begin() + index % list.size());
}

void drop_step(Site& s) { drop(s.steps(), s.draw.step); }
void duplicate_step(Site& s) {
  const Step copy = s.step();
  s.steps().insert(s.steps().begin() + s.draw.step, copy);
}
void swap_steps(Site& s) {
  if (s.draw.step + 1 < int(s.steps().size())) std::swap(s.step(), s.steps()[s.draw.step + 1]);
}
void swap_far_steps(Site& s) { std::swap(s.step(), pick(s.steps(), s.draw.other)); }
void change_chunk(Site& s) { s.step().chunk = (s.step().chunk + 1) % s.schedule.chunks(); }
void change_from_peer(Site& s) {
  if (s.step().from.used()) s.step().from.peer = (s.step().from.peer + 1) % s.ranks();
}
void change_to_peer(Site& s) {
  if (s.step().to.used()) s.step().to.peer = (s.step().to.peer + 1) % s.ranks();
}
void change_from_link(Site& s) {
  if (s.step().from.used()) s.step().from.id ^= 1;
}
void change_to_link(Site& s) {
  if (s.step().to.used()) s.step().to.id ^= 1;
}
void drop_from(Site& s) { s.step().from = {}; }
void drop_to(Site& s) { s.step().to = {}; }
void drop_source(Site& s) { drop(s.step().sources, s.draw.pick); }
void drop_target(Site& s) { drop(s.step().targets, s.draw.pick); }
void swap_sources(Site& s) {
  auto& list = s.step().sources;
  if (list.size() > 1) std::swap(pick(list, s.draw.pick), pick(list, s.draw.pick + 1));
}

Operand some_operand(Site& s) {
  switch (s.draw.other % 4) {
    case 0: return input();
    case 1: return output();
    case 2: return scratch(s.draw.other / 4 % 2);
    default: return window(s.draw.other / 4 % s.ranks(), s.draw.other / 8 % 4);
  }
}
void add_source(Site& s) { s.step().sources.push_back(some_operand(s)); }
void add_target(Site& s) { s.step().targets.push_back(some_operand(s)); }
void replace_source(Site& s) {
  if (!s.step().sources.empty()) pick(s.step().sources, s.draw.pick) = some_operand(s);
}
void replace_target(Site& s) {
  if (!s.step().targets.empty()) pick(s.step().targets, s.draw.pick) = some_operand(s);
}
bool slotted(const Operand& o) { return o.buffer == Buffer::scratch || o.buffer == Buffer::window; }
void change_slot(std::vector<Operand>& operands, int index) {
  if (operands.empty()) return;
  Operand& o = pick(operands, index);
  if (slotted(o)) o.slot ^= 1;
}
void change_source_slot(Site& s) { change_slot(s.step().sources, s.draw.pick); }
void change_target_slot(Site& s) { change_slot(s.step().targets, s.draw.pick); }
void change_source_rank(Site& s) {
  if (s.step().sources.empty()) return;
  Operand& o = pick(s.step().sources, s.draw.pick);
  if (o.rank >= 0) o.rank = (o.rank + 1) % s.ranks();
}
// All slots of one buffer fall onto half as many.
void merge_slots(Site& s) {
  for (Lane& lane : s.program().lanes)
    for (Step& step : lane.steps)
      for (auto* operands : {&step.sources, &step.targets})
        for (Operand& o : *operands) o.slot /= 2;
}

void drop_wait(Site& s) { drop(s.step().waits, s.draw.pick); }
void drop_all_waits(Site& s) { s.step().waits.clear(); }
void drop_post(Site& s) { drop(s.step().posts, s.draw.pick); }
void duplicate_post(Site& s) {
  if (!s.step().posts.empty()) s.step().posts.push_back(pick(s.step().posts, s.draw.pick));
}
void duplicate_wait(Site& s) {
  if (!s.step().waits.empty()) s.step().waits.push_back(pick(s.step().waits, s.draw.pick));
}
void more_lag(Site& s) {
  if (!s.step().waits.empty()) ++pick(s.step().waits, s.draw.pick).lag;
}
void less_lag(Site& s) {
  if (s.step().waits.empty()) return;
  int& lag = pick(s.step().waits, s.draw.pick).lag;
  lag = std::max(0, lag - 1);
}
void change_wait_cell(Site& s) {
  if (!s.step().waits.empty()) pick(s.step().waits, s.draw.pick).cell ^= 1;
}
void change_post_cell(Site& s) {
  if (!s.step().posts.empty()) pick(s.step().posts, s.draw.pick).cell ^= 1;
}
void change_wait_peer(Site& s) {
  if (s.step().waits.empty()) return;
  Rank& peer = pick(s.step().waits, s.draw.pick).peer;
  peer = (peer + 1) % s.ranks();
}
void post_earlier(Site& s) {
  if (s.draw.step == 0 || s.step().posts.empty()) return;
  s.steps()[s.draw.step - 1].posts.push_back(pick(s.step().posts, s.draw.pick));
  drop_post(s);
}
void wait_later(Site& s) {
  if (s.draw.step + 1 == int(s.steps().size()) || s.step().waits.empty()) return;
  s.steps()[s.draw.step + 1].waits.push_back(pick(s.step().waits, s.draw.pick));
  drop_wait(s);
}
void wait_earlier(Site& s) {
  if (s.draw.step == 0 || s.step().waits.empty()) return;
  s.steps()[s.draw.step - 1].waits.push_back(pick(s.step().waits, s.draw.pick));
  drop_wait(s);
}

void toggle_finish(Site& s) { s.step().finish = !s.step().finish; }
void fewer_halves(Site& s) {
  for (Program& p : s.schedule.programs) p.window_halves = std::max(1, p.window_halves - 1);
}
void more_halves(Site& s) {
  for (Program& p : s.schedule.programs) ++p.window_halves;
}
void change_times(Site& s) { s.step().times = std::max(1, s.step().times + s.draw.pick % 3 - 1); }
void change_stride(Site& s) { s.step().stride += s.draw.pick % 2 ? 1 : -1; }
void toggle_more(Site& s) { s.step().more = !s.step().more; }
// What follows the step goes into a lane of its own.
void split_lane(Site& s) {
  Lane tail;
  tail.copy = s.lane().copy;
  tail.steps.assign(s.steps().begin() + s.draw.step, s.steps().end());
  s.steps().resize(s.draw.step);
  s.program().lanes.push_back(tail);
}
void merge_lanes(Site& s) {
  auto& lanes = s.program().lanes;
  const int other = s.draw.other % int(lanes.size());
  if (other == s.draw.lane || lanes[other].copy != s.lane().copy) return;
  const std::vector<Step> moved = std::move(lanes[other].steps);
  lanes[other].steps.clear();
  s.steps().insert(s.steps().end(), moved.begin(), moved.end());
}

struct Fault {
  const char* name;
  void (*plant)(Site&);
};
constexpr std::array kFaults{
    Fault{"drop step", drop_step},
    Fault{"duplicate step", duplicate_step},
    Fault{"swap with the next step", swap_steps},
    Fault{"swap steps", swap_far_steps},
    Fault{"change chunk", change_chunk},
    Fault{"change peer received from", change_from_peer},
    Fault{"change peer sent to", change_to_peer},
    Fault{"change link received from", change_from_link},
    Fault{"change link sent to", change_to_link},
    Fault{"drop receive", drop_from},
    Fault{"drop send", drop_to},
    Fault{"drop source", drop_source},
    Fault{"drop target", drop_target},
    Fault{"swap sources", swap_sources},
    Fault{"add source", add_source},
    Fault{"add target", add_target},
    Fault{"replace source", replace_source},
    Fault{"replace target", replace_target},
    Fault{"change slot of source", change_source_slot},
    Fault{"change slot of target", change_target_slot},
    Fault{"change rank of source", change_source_rank},
    Fault{"merge slots", merge_slots},
    Fault{"drop wait", drop_wait},
    Fault{"drop all waits", drop_all_waits},
    Fault{"drop post", drop_post},
    Fault{"duplicate post", duplicate_post},
    Fault{"duplicate wait", duplicate_wait},
    Fault{"more lag", more_lag},
    Fault{"less lag", less_lag},
    Fault{"change cell waited for", change_wait_cell},
    Fault{"change cell posted", change_post_cell},
    Fault{"change peer waited for", change_wait_peer},
    Fault{"post earlier", post_earlier},
    Fault{"wait later", wait_later},
    Fault{"wait earlier", wait_earlier},
    Fault{"toggle finish", toggle_finish},
    Fault{"fewer window halves", fewer_halves},
    Fault{"more window halves", more_halves},
    Fault{"change times", change_times},
    Fault{"change stride", change_stride},
    Fault{"end or prolong message", toggle_more},
    Fault{"split lane", split_lane},
    Fault{"merge lanes", merge_lanes},
};

bool applies(const Schedule& s, Rank rank, const Draw& draw) {
  const auto& lanes = s.programs[rank].lanes;
  return draw.lane < int(lanes.size()) && draw.step < int(lanes[draw.lane].steps.size());
}

}  // namespace

Mutant mutate(const Schedule& original, std::mt19937& random) {
  const auto below = [&](size_t limit) { return int(random() % std::max<size_t>(limit, 1)); };
  Mutant mutant{original, {}};
  const Fault& fault = kFaults[below(kFaults.size())];
  const bool everywhere = below(3) == 0;
  const Rank rank = below(original.programs.size());
  Draw draw{};
  draw.lane = below(original.programs[rank].lanes.size());
  if (original.programs[rank].lanes.empty()) return mutant;
  draw.step = below(original.programs[rank].lanes[draw.lane].steps.size());
  draw.pick = below(1000);
  draw.other = below(1000);
  for (Rank r = 0; r < original.collective.ranks; ++r) {
    if ((r != rank && !everywhere) || !applies(mutant.schedule, r, draw)) continue;
    Site site{mutant.schedule, r, draw};
    fault.plant(site);
  }
  mutant.what = std::string(fault.name) + (everywhere ? " on all ranks" : "") + " at rank " +
                std::to_string(rank) + ", lane " + std::to_string(draw.lane) + ", step " +
                std::to_string(draw.step);
  return mutant;
}

}  // namespace weft
