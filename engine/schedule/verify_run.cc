#include "engine/schedule/verify_run.h"

#include <algorithm>

namespace weft::symbolic {
namespace {

int max_lanes(std::span<const Call> calls, Rank rank) {
  int most = 0;
  for (const Call& c : calls)
    most = std::max(most, c.plan->first_lane[rank + 1] - c.plan->first_lane[rank]);
  return most;
}

int count_lanes(std::span<const Call> calls) {
  int count = 0;
  for (Rank r = 0; r < calls[0].plan->ranks; ++r) count += max_lanes(calls, r);
  return count;
}

}  // namespace

Run::Run(std::span<const Call> calls, const Room& room, int leases)
    : expressions_(calls[0].plan->ranks),
      ranks_(calls[0].plan->ranks),
      room_(room),
      leases_(leases),
      lane_count_(count_lanes(calls)),
      clocks_(lane_count_ + ranks_),
      memory_(clocks_),
      rank_states_(ranks_),
      lanes_(lane_count_) {
  for (Rank r = 0, next = 0; r < ranks_; ++r) {
    first_lane_.push_back(next);
    for (int end = next + max_lanes(calls, r); next < end; ++next) lanes_[next].rank = r;
  }
  for (const Call& call : calls) add_call(call);
  number_links(calls);
  lease_windows();
}

void Run::add_call(const Call& call) {
  const Plan& plan = *call.plan;
  CallState& c = calls_.emplace_back();
  c.call = &call;
  c.plan = &plan;
  c.rounds = call.rounds;
  c.ends.resize(ranks_);
  for (Rank r = 0; r < ranks_; ++r) {
    const int cells = plan.user_cells(r) * call.rounds;
    c.user_cells.push_back(memory_.add(cells));
    c.scratch_cells.push_back(memory_.add(plan.schedule->programs[r].scratch_slots));
    // Before a rank's entry nobody may touch its Input and Output.
    if (plan.touches_peers)
      for (int i = 0; i < cells; ++i)
        memory_.own(c.user_cells[r] + i, {user_lane(r), Memory::kNever});
  }
  c.posts.resize(plan.cells.size() * call.rounds);
  c.post_depths.resize(c.posts.size());
  c.posted.assign(plan.cells.size(), 0);
  c.waiting.assign(plan.cells.size(), -1);
}

void Run::number_links(std::span<const Call> calls) {
  Triples numbers(ranks_);
  for (const Call& c : calls)
    for (const PlanLink& link : c.plan->links)
      if (link.sends) numbers.note(link.from, link.to, link.id);
  numbers.close();
  links_.resize(numbers.size());
  for (CallState& c : calls_) {
    for (const PlanLink& link : c.plan->links) {
      c.links.push_back(link.sends ? numbers.index(link.from, link.to, link.id) : -1);
      if (link.sends == 0) continue;
      links_[c.links.back()].name = link;
      links_[c.links.back()].sends += int64_t{link.sends} * c.rounds;
    }
  }
  messages_.resize(links_.size() * room_.least);
  int releases = 0;
  for (LinkState& link : links_) {
    link.first_release = releases;
    releases += static_cast<int>(std::clamp<int64_t>(link.sends - room_.most, 0, room_.most));
  }
  releases_.resize(releases);
}

// Space is leased in the order of the calls from a ring; a lease lies in one piece.
void Run::lease_windows() {
  int largest = 0;
  for (const CallState& c : calls_)
    largest = std::max(largest, c.plan->window_slots * c.plan->halves);
  window_capacity_ = largest * leases_;
  window_cells_ = memory_.add(window_capacity_ * ranks_);
  std::vector<int> user(window_capacity_, -1);
  int at = 0;
  for (size_t i = 0; i < calls_.size(); ++i) {
    CallState& c = calls_[i];
    const int size = c.plan->window_slots * c.plan->halves;
    if (size == 0) continue;
    if (at + size > window_capacity_) at = 0;
    c.lease_at = at;
    for (int k = at; k < at + size; ++k) {
      c.lease_after = std::max(c.lease_after, user[k]);
      user[k] = int(i);
    }
    at += size;
  }
}

Status Run::run() {
  for (Rank r = 0; r < ranks_; ++r) WEFT_TRY(start_calls(r));
  while (!ready_.empty()) {
    const int lane = ready_.back();
    ready_.pop_back();
    lanes_[lane].queued = false;
    WEFT_TRY(advance(lane));
  }
  for (const RankState& r : rank_states_)
    if (r.call < int(calls_.size())) return deadlock();
  return check_links();
}

bool Run::lease_is_free(Rank rank) {
  RankState& r = rank_states_[rank];
  const int after = calls_[r.call].lease_after;
  r.waits_for_lease = after >= 0 && calls_[after].finished < ranks_;
  return !r.waits_for_lease;
}

Status Run::start_calls(Rank rank) {
  RankState& r = rank_states_[rank];
  while (r.lanes_left == 0 && r.call < int(calls_.size())) {
    if (r.waits_for_lease) {
      if (!lease_is_free(rank)) return {};
    } else {
      if (r.call >= 0) WEFT_TRY(leave(rank));
      if (++r.call == int(calls_.size())) return {};
      if (!lease_is_free(rank)) return {};
    }
    enter(rank);
  }
  return {};
}

void Run::enter(Rank rank) {
  RankState& r = rank_states_[rank];
  CallState& c = calls_[r.call];
  const int user = user_lane(rank);
  if (c.lease_after >= 0)
    for (const Snapshot& end : calls_[c.lease_after].ends) clocks_.merge(user, end);
  clocks_.tick(user);
  if (c.plan->touches_peers)
    for (int i = 0; i < c.plan->user_cells(rank) * c.rounds; ++i)
      memory_.own(c.user_cells[rank] + i, {user, clocks_.now(user)});
  Snapshot start = clocks_.take(user);
  const int begin = c.plan->first_lane[rank];
  for (int i = begin; i < c.plan->first_lane[rank + 1]; ++i) {
    const int lane = first_lane_[rank] + i - begin;
    LaneState& state = lanes_[lane];
    const PlanLane& plan = c.plan->lanes[i];
    state.index = i;
    state.call = r.call;
    state.round = state.op = state.depth = 0;
    state.rounds = c.plan->rounds_of(plan.copy, c.rounds);
    state.begins.resize(calls_.size(), Memory::kNever);
    state.begins[r.call] = clocks_.now(lane);
    clocks_.merge(lane, start);
    if (state.rounds == 0 || plan.ops.begin == plan.ops.end) continue;
    ++r.lanes_left;
    state.queued = true;
    ready_.push_back(lane);
  }
  clocks_.drop(start);
}

Status Run::leave(Rank rank) {
  CallState& c = calls_[rank_states_[rank].call];
  const int user = user_lane(rank);
  const int lanes = c.plan->first_lane[rank + 1] - c.plan->first_lane[rank];
  for (int i = 0; i < lanes; ++i) {
    Snapshot end = clocks_.take(first_lane_[rank] + i);
    clocks_.merge(user, end);
    clocks_.drop(end);
  }
  clocks_.tick(user);
  if (c.plan->touches_peers) {
    for (int i = 0; i < c.plan->user_cells(rank) * c.rounds; ++i) {
      const int cell = c.user_cells[rank] + i;
      const Access race = memory_.claim(cell, user);
      if (race.lane >= 0)
        return invalid_argument(describe(race) + ": it touches Input or Output of rank " +
                                std::to_string(rank) +
                                ", which may have returned from the call by then; let that rank "
                                "wait for a signal before it ends.");
    }
  }
  c.ends[rank] = clocks_.take(user);
  if (++c.finished == ranks_)
    for (Rank r = 0; r < ranks_; ++r)
      if (r != rank && rank_states_[r].waits_for_lease) WEFT_TRY(start_calls(r));
  return {};
}

Status Run::advance(int lane) {
  LaneState& state = lanes_[lane];
  CallState& call = calls_[state.call];
  const Range ops = call.plan->lanes[state.index].ops;
  while (state.round < state.rounds) {
    const Op& op = call.plan->ops[ops.begin + state.op];
    state.empty = call.call->empty(op.chunk, round_of(state));
    if (op.begins) {
      state.carries = carries(state, op);
      if (blocked(lane, call, op)) return {};
    }
    WEFT_TRY(execute(lane, call, op));
    if (++state.op == ops.end - ops.begin) state.op = 0, ++state.round;
  }
  return end_lane(lane);
}

Status Run::end_lane(int lane) {
  const Rank rank = lanes_[lane].rank;
  --rank_states_[rank].lanes_left;
  return start_calls(rank);
}

// Whether the message that begins here has a chunk with elements in this round.
bool Run::carries(const LaneState& lane, const Op& first) const {
  const Call& call = *calls_[lane.call].call;
  for (const Op* op = &first;; ++op) {
    if (!call.empty(op->chunk, round_of(lane))) return true;
    if (op->ends) return false;
  }
}

bool Run::blocked(int lane, CallState& call, const Op& op) {
  LaneState& state = lanes_[lane];
  if (op.from >= 0 && state.carries) {
    LinkState& link = links_[call.links[op.from]];
    if (link.sent == link.received) return link.blocked_receiver = lane, true;
  }
  if (op.to >= 0 && state.carries) {
    LinkState& link = links_[call.links[op.to]];
    if (link.sent - link.received >= room_.least) return link.blocked_sender = lane, true;
  }
  for (int w = op.waits.begin; w < op.waits.end; ++w) {
    const Wait& wait = call.plan->waits[w];
    if (falls_away(state, wait)) continue;
    if (call.posted[wait.cell] >= state.round - wait.lag + 1) continue;
    state.next_waiting = call.waiting[wait.cell];
    return call.waiting[wait.cell] = lane, true;
  }
  return false;
}

Status Run::execute(int lane, CallState& call, const Op& op) {
  clocks_.tick(lane);
  if (op.begins) acquire(lane, call, op);
  if (!lanes_[lane].empty) {
    WEFT_TRY(gather(lane, call, op));
    Value value = kNothing;
    WEFT_TRY(combine(lane, op, value));
    WEFT_TRY(store(lane, call, op, value));
    if (op.to >= 0) outgoing(call, op).parts.push_back({value, clocks_.take(lane)});
  }
  return op.ends ? release(lane, call, op) : Status();
}

void Run::acquire(int lane, CallState& call, const Op& op) {
  LaneState& state = lanes_[lane];
  state.part = 0;
  if (op.from >= 0 && state.carries) {
    const Message& message = incoming(call, op);
    if (state.round == 0) state.depth = std::max(state.depth, message.depth + 1);
  }
  if (op.to >= 0 && state.carries) {
    const LinkState& link = links_[call.links[op.to]];
    if (link.sent >= room_.most) {
      Snapshot& free = freed(link, link.sent);
      clocks_.merge(lane, free);
      clocks_.drop(free);
    }
  }
  for (int w = op.waits.begin; w < op.waits.end; ++w) {
    const Wait& wait = call.plan->waits[w];
    if (state.round < wait.lag || falls_away(state, wait)) continue;
    const size_t at = size_t(wait.cell) * call.rounds + state.round - wait.lag;
    clocks_.merge(lane, call.posts[at]);
    if (state.round == 0)
      state.depth = std::max(state.depth, call.post_depths[at] + (wait.remote ? 1 : 0));
  }
  if (state.call == 0) hops_ = std::max(hops_, state.depth);
}

Status Run::combine(int lane, const Op& op, Value& value) {
  if (operands_.empty()) return {};
  if (operands_.size() > 1) {
    for (Value v : operands_)
      if (expressions_.finished(v)) return bad(lane, "it folds a value that is finished already");
    const Rank twice = expressions_.folded_twice(operands_);
    const Kind kind = calls_[lanes_[lane].call].plan->schedule->collective.kind;
    if (twice >= 0 && kind != Kind::barrier)
      return bad(lane, "it folds the input of rank " + std::to_string(twice) + " twice");
  }
  value = expressions_.fold(operands_);
  if (!op.finish) return {};
  if (expressions_.finished(value))
    return bad(lane, "it finishes a value that is finished already");
  value = expressions_.finish(value);
  return {};
}

Status Run::release(int lane, CallState& call, const Op& op) {
  const LaneState& state = lanes_[lane];
  if (op.from >= 0 && state.carries) {
    LinkState& link = links_[call.links[op.from]];
    Message& message = incoming(call, op);
    const auto sent = static_cast<int>(message.parts.size());
    if (state.part != sent)
      return bad(lane, "it takes " + std::to_string(state.part) + " of the " +
                           std::to_string(sent) + " chunks of the message received");
    for (Part& part : message.parts) clocks_.drop(part.clock);
    message.parts.clear();
    if (link.received + int64_t{room_.most} < link.sends)
      freed(link, link.received) = clocks_.take(lane);
    ++link.received;
    wake(link.blocked_sender);
  }
  if (op.to >= 0 && state.carries) {
    LinkState& link = links_[call.links[op.to]];
    outgoing(call, op).depth = state.depth;
    ++link.sent;
    link.last_send = {lane, clocks_.now(lane)};
    wake(link.blocked_receiver);
  }
  for (int p = op.posts.begin; p < op.posts.end; ++p) post(lane, call, call.plan->posts[p]);
  return {};
}

void Run::post(int lane, CallState& call, int cell) {
  const size_t at = size_t(cell) * call.rounds + call.posted[cell]++;
  call.posts[at] = clocks_.take(lane);
  call.post_depths[at] = lanes_[lane].depth;
  while (call.waiting[cell] >= 0) {
    int waiter = call.waiting[cell];
    call.waiting[cell] = lanes_[waiter].next_waiting;
    wake(waiter);
  }
}

void Run::wake(int& lane) {
  if (lane >= 0 && !lanes_[lane].queued) {
    lanes_[lane].queued = true;
    ready_.push_back(lane);
  }
  lane = -1;
}

}  // namespace weft::symbolic
