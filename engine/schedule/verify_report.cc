// The symbolic run's words for what is wrong.
#include "engine/schedule/verify_run.h"

namespace weft::symbolic {
namespace {

constexpr int kLanesReported = 6;

}  // namespace

std::string Run::here(int lane) const {
  const LaneState& state = lanes_[lane];
  return describe(
      {lane, state.begins[state.call] + 1 + state.op +
                 state.round * (plan_lane(state).ops.end - plan_lane(state).ops.begin)});
}

std::string Run::describe(const Access& access) const {
  if (access.lane < 0) return "nobody";
  if (access.lane >= lane_count_)
    return "the caller of rank " + text(access.lane - lane_count_) +
           (access.time == Memory::kNever ? ", who has not entered the call"
                                          : ", who enters or leaves the call");
  const LaneState& lane = lanes_[access.lane];
  int call = lane.call;
  while (call > 0 && lane.begins[call] >= access.time) --call;
  const Plan& plan = *calls_[call].plan;
  const PlanLane& steps =
      plan.lanes[plan.first_lane[lane.rank] + access.lane - first_lane_[lane.rank]];
  const int count = steps.ops.end - steps.ops.begin;
  const int done = access.time - lane.begins[call] - 1;
  const int round = done / count * plan.copies + steps.copy;
  std::string out;
  if (calls_.size() > 1)
    out.append("call ")
        .append(text(call))
        .append(" (")
        .append(name(plan.schedule->collective.kind))
        .append("), ");
  out += place_of(plan, steps, plan.ops[steps.ops.begin + done % count]);
  return out += ", round " + text(round);
}

Status Run::bad(int lane, const std::string& what) const {
  return invalid_argument(here(lane) + ": " + what + ".");
}

std::string Run::blocked_on(int lane) const {
  const LaneState& state = lanes_[lane];
  const CallState& call = calls_[state.call];
  const Op& op = call.plan->ops[plan_lane(state).ops.begin + state.op];
  if (op.from >= 0 && state.carries) {
    const LinkState& link = links_[call.links[op.from]];
    if (link.sent == link.received)
      return "waits for a message on link " + text(link.name.id) + " from rank " +
             text(link.name.from);
  }
  if (op.to >= 0 && state.carries) {
    const LinkState& link = links_[call.links[op.to]];
    if (link.sent - link.received >= room_.least)
      return "waits for room on link " + text(link.name.id) + " to rank " + text(link.name.to) +
             ", whose " + text(room_.least) + (room_.least == 1 ? " slot is" : " slots are") +
             " full";
  }
  for (int w = op.waits.begin; w < op.waits.end; ++w) {
    const Wait& wait = call.plan->waits[w];
    const PlanCell& cell = call.plan->cells[wait.cell];
    const int needed = state.round - wait.lag + 1;
    if (call.posted[wait.cell] < needed)
      return "waits for post " + text(needed) + " of cell " + text(cell.id) + " by rank " +
             text(cell.poster) + ", which has posted it " + text(call.posted[wait.cell]) + " times";
  }
  return "waits for nothing";
}

Status Run::deadlock() const {
  std::string out =
      "Deadlock with " + text(room_.least) + (room_.least == 1 ? " slot" : " slots") + " per link:";
  int reported = 0, blocked = 0;
  for (Rank r = 0; r < ranks_; ++r) {
    const RankState& rank = rank_states_[r];
    if (rank.waits_for_lease && blocked++ < kLanesReported)
      out += " rank " + text(r) + " waits to lease window space for call " + text(rank.call) + ";";
    if (rank.lanes_left == 0) continue;
    const Plan& plan = *calls_[rank.call].plan;
    for (int i = 0; i < plan.first_lane[r + 1] - plan.first_lane[r]; ++i) {
      const int lane = first_lane_[r] + i;
      if (lanes_[lane].round == lanes_[lane].rounds ||
          plan_lane(lanes_[lane]).ops.begin == plan_lane(lanes_[lane]).ops.end)
        continue;
      if (++blocked > kLanesReported) continue;
      ++reported;
      out.append(" ").append(here(lane)).append(" ").append(blocked_on(lane)).append(";");
    }
  }
  if (blocked > kLanesReported)
    out += " and " + text(blocked - kLanesReported) + " more lanes are blocked";
  if (out.back() == ';') out.pop_back();
  return invalid_argument(out + ".");
}

Status Run::check_links() const {
  for (const LinkState& link : links_)
    if (link.sent != link.received)
      return invalid_argument(describe(link.last_send) + ": its message on link " +
                              text(link.name.id) + " to rank " + text(link.name.to) +
                              " is never received.");
  return {};
}

}  // namespace weft::symbolic
