#include "engine/tuner/simulate_game.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/text.h"
#include "engine/schedule/window_lap.h"
#include "kernels/claim.h"

namespace weft::simulation {
namespace {

const std::vector<Rate>& rates_of(const Medium& medium, bool one_way) {
  return one_way && !medium.rank_one_way_rates.empty() ? medium.rank_one_way_rates
                                                       : medium.rank_rates;
}
const std::vector<Rate>& window_rates(const Medium& medium, bool one_way) {
  if (medium.window_rates.empty()) return rates_of(medium, one_way);
  return one_way && !medium.window_one_way_rates.empty() ? medium.window_one_way_rates
                                                         : medium.window_rates;
}

const std::vector<Rate>& read_rates(const Medium& medium, bool alone) {
  return alone && !medium.read_alone_rates.empty() ? medium.read_alone_rates : medium.read_rates;
}

}  // namespace

Game::Game(const Plan& plan, const Trial& trial, const Network& network, const Sizes& sizes)
    : plan_(plan),
      trial_(trial),
      network_(network),
      sizes_(sizes),
      ranks_(static_cast<size_t>(plan.ranks)),
      cores_(network, plan.ranks) {
  for (size_t l = 0; l < plan.lanes.size(); ++l) {
    RankState& rank = ranks_[static_cast<size_t>(plan.lanes[l].rank)];
    if (rank.lanes++ == 0) rank.first_lane = static_cast<int>(l);
  }
  set_rates();
  find_empty_messages();
}

// Whether the executor runs it by short steps (executor/short_steps.h).
bool Game::is_short(int rounds) const {
  return network_.short_step_s > 0 && rounds == 1 && plan_.window_slots > 0 &&
         plan_.links.empty() && sizes_.round_bytes <= kShortStepBytes &&
         std::all_of(ranks_.begin(), ranks_.end(), [](const RankState& r) { return r.lanes == 1; });
}

// What the ranks of each core touch, by the first of them.
std::vector<Game::Touch> Game::touches() const {
  std::vector<Touch> cores(ranks_.size());
  const auto core_of = [&](Rank rank) -> Touch& {
    return cores[static_cast<size_t>(cores_.first(rank))];
  };
  const double window = sizes_.round_bytes * plan_.window_slots * plan_.window_halves;
  const size_t lap = std::min(kWindowLapBytes, plan_.lap(window));
  for (Rank rank = 0; rank < plan_.ranks; ++rank) {
    const Plan::Touched& touched = plan_.touched[static_cast<size_t>(rank)];
    const double kept = touched.all - (sizes_.streams ? touched.results : 0);
    core_of(rank).call += kept * sizes_.chunk_bytes;
    core_of(rank).round += 2 * sizes_.round_bytes * plan_.chunks;
    for (const double chunks : {touched.written, touched.read})
      core_of(rank).windows += std::min<double>(lap, chunks * sizes_.chunk_bytes);
  }
  const double ring = trial_.slots * std::min(sizes_.round_bytes, trial_.slot_bytes);
  const double message = sizes_.round_bytes * plan_.message_chunks;
  struct End {
    bool seen = false, slot_seen = false;
  };
  std::vector<End> ends(2 * plan_.links.size());
  const auto add_link = [&](const Op& op, bool sends, Touch& core) {
    const auto number = static_cast<size_t>(sends ? op.to : op.from);
    const Link& link = plan_.links[number];
    End& end = ends[2 * number + sends];
    const bool is_new = !std::exchange(end.seen, true);
    const bool new_slot = op.by_slots && !std::exchange(end.slot_seen, true);
    if (link.socket) core.under_way += message * (is_new + new_slot);
    if (link.between || !network_.inside.mapped || !is_new) return;
    core.rings += ring;
    if (sends && link.in_cache) core.own_rings += ring;
  };
  for (const PlayedLane& lane : plan_.lanes)
    for (int i = lane.begin; i < lane.end; ++i) {
      const Op& op = plan_.ops[static_cast<size_t>(i)];
      if (op.from >= 0) add_link(op, false, core_of(lane.rank));
      if (op.to >= 0) add_link(op, true, core_of(lane.rank));
    }
  return cores;
}

// Those of messages go by what is in one; where a core's links go round in more memory than windows
// do, they are no faster than these.
Game::LinkRates Game::link_rates(double message, bool one_way, bool past_laps) const {
  const Medium& inside = network_.inside;
  LinkRates rates;
  rates.inside = rate_at(rates_of(inside, one_way), message);
  rates.between = rate_at(rates_of(network_.between, one_way), message);
  if (past_laps)
    rates.inside = std::min(rates.inside, rate_at(window_rates(inside, one_way), message));
  return rates;
}

// The memory's rates go by what the ranks of a core touch in a call, or in a round; what streams
// past the caches does not count.
void Game::set_rates() {
  const std::vector<Touch> cores = touches();
  const double most = trial_.slot_bytes;
  const bool all_are_played = plan_.ranks == trial_.collective.ranks;
  const bool one_pulls =
      all_are_played && std::count_if(plan_.touched.begin(), plan_.touched.end(),
                                      [](const Plan::Touched& rank) { return rank.pulls; }) == 1;
  for (size_t r = 0; r < ranks_.size(); ++r) {
    const Plan::Touched& touched = plan_.touched[r];
    const bool one_way = touched.sends != touched.receives,
               windows_one_way = (touched.written > 0) != (touched.read > 0);
    const Touch& core = cores[static_cast<size_t>(cores_.first(static_cast<Rank>(r)))];
    const bool past_laps = core.rings > kWindowLapBytes;
    ranks_[r].one = link_rates(std::min(sizes_.round_bytes, most), one_way, past_laps);
    ranks_[r].several =
        link_rates(std::min(sizes_.round_bytes * plan_.message_chunks, most), one_way, past_laps);
    ranks_[r].window_rate =
        rate_at(window_rates(network_.inside, windows_one_way), sizes_.round_bytes);
    ranks_[r].read_rate = rate_at(read_rates(network_.inside, one_pulls), core.call);
    const double between = core.under_way + core.windows + core.own_rings;
    ranks_[r].fresh_rate = network_.memory_rate(core.call + between);
    ranks_[r].moved_rate = network_.memory_rate(core.under_way);
    ranks_[r].again_rate = network_.memory_rate(std::min(core.call, core.round) + between);
  }
}

void Game::find_empty_messages() {
  empty_messages_.resize(plan_.ops.size());
  for (size_t begin = 0, end = 0; begin < plan_.ops.size(); begin = end) {
    bool none = true;
    do {
      none &= empty(plan_.ops[end], 0);
    } while (!plan_.ops[end++].ends);
    for (size_t i = begin; i < end; ++i) empty_messages_[i] = none;
  }
}

Result<double> Game::play(double rounds, int calls, std::vector<SimulatedStep>* trace) {
  reset(static_cast<int>(rounds), calls);
  trace_ = trace;
  for (Rank rank = 0; rank < plan_.ranks; ++rank) make_call(rank, 0);
  while (!events_.empty()) {
    const Event event = events_.top();
    events_.pop();
    happen(event);
  }
  for (const RankState& rank : ranks_)
    if (rank.ended < calls_)
      return Status(Code::internal, concat("The schedule of ", trial_.algorithm->name,
                                           " blocks with ", trial_.slots, " slots per link."));
  if (calls == 1) return call_ends_[0];
  return pace();
}

// From call to call. Who shares a core with a rank that runs ahead as far as it may has none until
// that one stops, and then ends call after call faster than both can: of many, take the mean.
double Game::pace() const {
  constexpr int kMany = 32;
  const size_t last = call_ends_.size() - 1, from = last / 2;
  const double late = (call_ends_[last] - call_ends_[from]) / static_cast<double>(last - from);
  const bool crowded = network_.node_cores > 0 && calls_ >= kMany;
  return crowded ? std::max(late, call_ends_[last] / calls_) : late;
}

void Game::reset(int rounds, int calls) {
  calls_ = calls;
  step_s_ = is_short(rounds) ? network_.short_step_s : network_.step_s;
  lease_depth_ = plan_.lease_depth(sizes_.round_bytes, rounds, trial_.ll);
  lanes_.assign(plan_.lanes.size(), {});
  links_.assign(plan_.links.size(), {});
  size_t slots = 0;
  for (size_t l = 0; l < links_.size(); ++l) {
    links_[l].first_slot = slots;
    links_[l].slots = std::min<int64_t>(trial_.slots, plan_.links[l].messages * rounds * calls);
    slots += static_cast<size_t>(links_[l].slots);
  }
  arrives_.assign(slots, 0);
  free_.assign(slots, 0);
  cells_.assign(plan_.cells.size(), {});
  ports_.assign(plan_.ports.size(), 0);
  call_ends_.assign(static_cast<size_t>(calls), 0);
  without_lease_.clear();
  cores_.reset();
  for (RankState& rank : ranks_) rank.active = rank.ended = 0;
  all_ended_ = 0;
  for (size_t l = 0; l < lanes_.size(); ++l) {
    const PlayedLane& lane = plan_.lanes[l];
    if (lane.begin == lane.end) continue;
    lanes_[l].rounds = std::max(0, (rounds - lane.copy + plan_.copies - 1) / plan_.copies);
    ranks_[static_cast<size_t>(lane.rank)].active += lanes_[l].rounds > 0;
  }
}

void Game::happen(const Event& event) {
  switch (event.what) {
    case Happening::looks: return look(event.who, event.at);
    case Happening::runs: return run(event.who, event.at);
    case Happening::leaves: return leave(event.who, event.at);
    case Happening::ends: return end(event.who, event.at);
    case Happening::calls: return come_back(event.who, event.at);
    case Happening::leases: return make_call(event.who, event.at);
    case Happening::gives_way: return lose_patience(event.who, event.at);
    case Happening::turns: return turn(event.who, event.at);
  }
}

// -- calls ----------------------------------------------------------------------------------------

// A rank that has not ended the call whose window space this one uses again; none: it may.
Rank Game::has_lease_of(const RankState& rank) {
  const int before = rank.ended - lease_depth_ + 1;
  if (before <= all_ended_) return kNobody;
  const auto other = std::find_if(ranks_.begin(), ranks_.end(),
                                  [&](const RankState& r) { return r.ended < before; });
  if (other != ranks_.end()) return static_cast<Rank>(other - ranks_.begin());
  all_ended_ = before;
  return kNobody;
}

void Game::make_call(Rank rank, double now) {
  RankState& state = ranks_[static_cast<size_t>(rank)];
  if (state.active == 0) {  // it has no part in any call
    state.ended = calls_;
    return;
  }
  state.awaited = has_lease_of(state);
  if (state.awaited != kNobody) return without_lease_.push_back(rank);
  state.left = state.active;
  for (int lane = state.first_lane; lane < state.first_lane + state.lanes; ++lane) {
    LaneState& at = state_of(lane);
    at.op = played(lane).begin;
    at.posts_before = state.ended * at.rounds;
    at.round = 0;
    look(lane, now);
  }
}

void Game::end_call(Rank rank, double now) {
  RankState& state = ranks_[static_cast<size_t>(rank)];
  double& ended = call_ends_[static_cast<size_t>(state.ended)];
  ended = std::max(ended, now);
  if (++state.ended < calls_) {
    cores_.of(rank).doing = Doing::between_calls;
    at(now + network_.call_s, rank, Happening::calls);
  }
  const double heard = now + network_.inside.latency_s;
  for (const Rank waiting : std::exchange(without_lease_, {}))
    at(heard, waiting, Happening::leases);
}

// -- steps ----------------------------------------------------------------------------------------

// Begins the step at hand, or leaves word where the lane is to be woken.
void Game::look(int lane, double now) {
  LaneState& state = state_of(lane);
  if (state.round >= state.rounds) return;
  const Op& op = op_of(state);
  double ready = now;
  if (op.begins && !may_begin(lane, op, ready)) return;
  if (ready > now) return at(ready, lane, Happening::looks);
  want_core(lane, now);
}

bool Game::may_begin(int lane, const Op& op, double& ready) {
  LaneState& state = state_of(lane);
  const double now = ready;
  const auto not_before = [&](double time, Rank peer) {
    if (time > now && state.awaited == kNobody) state.awaited = peer;
    ready = std::max(ready, time);
  };
  state.awaited = kNobody;
  if (!signalled(lane, op, state, now)) return false;
  ready = std::max(ready, state.signalled);
  if (message_is_empty(op, state.time)) return true;
  if (op.from >= 0) {
    LinkState& link = links_[static_cast<size_t>(op.from)];
    const Rank peer = plan_.links[static_cast<size_t>(op.from)].from;
    if (link.sent == link.received) return link.receiver = lane, state.awaited = peer, false;
    not_before(arrives_[slot(link, link.received)], peer);
  }
  if (op.to >= 0) {
    LinkState& link = links_[static_cast<size_t>(op.to)];
    const Rank peer = plan_.links[static_cast<size_t>(op.to)].to;
    if (link.sent - link.received >= trial_.slots)
      return link.sender = lane, state.awaited = peer, false;
    if (link.sent >= trial_.slots) not_before(free_[slot(link, link.sent)], peer);
  }
  return true;
}

// Goes on where it stopped: a step may wait for all other ranks.
bool Game::signalled(int lane, const Op& op, LaneState& state, double now) {
  for (; op.waits_begin + state.waits_met < op.waits_end; ++state.waits_met) {
    const Wait& wait = plan_.waits[static_cast<size_t>(op.waits_begin + state.waits_met)];
    CellState& cell = cells_[static_cast<size_t>(wait.cell)];
    if (state.round < wait.lag) continue;
    const int post = state.posts_before + state.round - wait.lag;
    const bool there = post < int(cell.posts.size());
    const double since = there ? cell.posts[static_cast<size_t>(post)] : 0;
    if (!there || since > now) state.awaited = plan_.cells[static_cast<size_t>(wait.cell)].poster;
    if (!there) return cell.waiting.push_back(lane), false;
    state.signalled = std::max(state.signalled, since);
  }
  return true;
}

// Its sender is not done with it yet.
void Game::leave(int lane, double now) {
  LaneState& state = state_of(lane);
  state.message_left = true;
  send(op_of(state), state.message + sizes_.round_bytes, now);
}

void Game::end(int lane, double now) {
  LaneState& state = state_of(lane);
  const PlayedLane& of = played(lane);
  const Op& op = op_of(state);
  ++steps_;
  if (trace_)
    trace_->push_back({of.rank, of.number, state.op - of.begin, state.round, state.began, now});
  if (!message_is_empty(op, state.time)) {
    if (!empty(op, state.time)) state.message += sizes_.round_bytes;
    if (op.ends) pass_on(op, state, now);
  }
  if (op.ends) post(op, now);
  next(lane, state, now);
  Core& core = cores_.of(of.rank);
  if (core.doing != Doing::between_calls) go_on(core, now);
}

void Game::next(int lane, LaneState& state, double now) {
  const PlayedLane& of = played(lane);
  state.waits_met = 0;
  state.signalled = 0;
  if (++state.time == op_of(state).times) {
    state.time = 0;
    if (++state.op == of.end) state.op = of.begin, ++state.round;
  }
  if (state.round < state.rounds) return look(lane, now);
  if (--ranks_[static_cast<size_t>(of.rank)].left == 0) end_call(of.rank, now);
}

bool Game::empty(const Op& op, int time) const {
  return sizes_.pieces_used < plan_.pieces &&
         chunk_at(op, time, plan_.chunks) % plan_.pieces >= sizes_.pieces_used;
}

// Both ends know the sizes: of chunks that are all empty there is no message. A message of several
// is no loop.
bool Game::message_is_empty(const Op& op, int time) const {
  if (op.begins && op.ends) return empty(op, time);
  return empty_messages_[static_cast<size_t>(&op - plan_.ops.data())];
}

// How long the step keeps its core.
double Game::time_of(const Op& op, int lane) const {
  const int turn = lanes_[static_cast<size_t>(lane)].time;
  if (message_is_empty(op, turn)) return step_s_;
  const RankState& rank = ranks_[static_cast<size_t>(played(lane).rank)];
  const bool nothing = empty(op, turn);
  const double bytes = nothing ? 0 : sizes_.round_bytes;
  double time = step_s_ + (nothing ? 0 : chunk_time(op, rank));
  time += op.signals * network_.inside.signal_s;
  if (op.from >= 0)
    time += message_time(op, plan_.links[static_cast<size_t>(op.from)], rank, false, bytes);
  if (op.to >= 0)
    time += message_time(op, plan_.links[static_cast<size_t>(op.to)], rank, true, bytes);
  return time;
}

// What the rank does with a chunk's bytes.
double Game::chunk_time(const Op& op, const RankState& rank) const {
  const double bytes = sizes_.round_bytes;
  const double parts = op.lines ? lines_of(bytes) : 1;  // looked for, and folded, one by one
  double time = (parts - 1) * step_s_;
  if (op.folds) time += parts * network_.fold_s;
  const double streamed = sizes_.streams ? op.results : 0;
  if (streamed > 0) time += streamed * bytes / network_.stream_rate;
  // Of lines that the call before has claimed, those that came back with it save half as much.
  const bool claimed =
      network_.inside.claims && !plan_.crowded && bytes <= static_cast<double>(kClaimedNextMost);
  const double shared = op.shared + (claimed ? op.back / 2 : 0);
  const double again = op.again + (claimed ? op.back / 2 : op.back);
  if (rank.fresh_rate > 0)
    time += ((op.fresh - streamed) / rank.fresh_rate + again / rank.again_rate +
             op.moved / rank.moved_rate) *
            bytes;
  if (rank.window_rate > 0) time += shared * bytes / rank.window_rate;
  if (op.pulled > 0) time += op.pulled * (network_.inside.read_s + bytes / rank.read_rate);
  return time;
}

double Game::message_time(const Op& op, const Link& link, const RankState& rank, bool sends,
                          double bytes) const {
  const Medium& medium = link.between ? network_.between : network_.inside;
  const double each = sends ? medium.send_s : medium.recv_s;
  // A chunk that is longer than a slot goes in several.
  const double messages = op.begins ? std::ceil(sizes_.round_bytes / trial_.slot_bytes) : 0;
  const LinkRates& rates = op.begins && op.ends ? rank.one : rank.several;
  const double rate = link.in_cache ? 0 : link.between ? rates.between : rates.inside;
  return messages * each + (rate > 0 ? bytes / rate : 0);
}

double Game::tail_of(const Op& op, const LaneState& state) const {
  if (op.to < 0 || !op.ends || message_is_empty(op, state.time)) return 0;
  const Link& link = plan_.links[static_cast<size_t>(op.to)];
  return (link.between ? network_.between : network_.inside).send_tail_s;
}

// The messages of a step that has ended.
void Game::pass_on(const Op& op, LaneState& state, double now) {
  const double bytes = std::exchange(state.message, 0);
  if (op.from >= 0) {
    LinkState& link = links_[static_cast<size_t>(op.from)];
    free_[slot(link, link.received++)] = now + plan_.links[static_cast<size_t>(op.from)].latency_s;
    wake(link.sender, now);
  }
  if (op.to >= 0 && !std::exchange(state.message_left, false)) send(op, bytes, now);
}

void Game::send(const Op& op, double bytes, double now) {
  LinkState& link = links_[static_cast<size_t>(op.to)];
  const double arrives = arrival(plan_.links[static_cast<size_t>(op.to)], bytes, now);
  arrives_[slot(link, link.sent++)] = arrives;
  wake(link.receiver, now);
}

void Game::post(const Op& op, double now) {
  for (int p = op.posts_begin; p < op.posts_end; ++p) {
    const auto number = static_cast<size_t>(plan_.posts[static_cast<size_t>(p)]);
    cells_[number].posts.push_back(now + plan_.cells[number].latency_s);
    for (const int lane : std::exchange(cells_[number].waiting, {})) look(lane, now);
  }
}

// Every port carries messages one after the other, as they were sent; what waits at one of its way
// keeps none of the others waiting. It has arrived when the last of them has carried it.
double Game::arrival(const Link& link, double bytes, double now) {
  double last = now;
  for (const int port : link.ports) {
    double& free = ports_[static_cast<size_t>(port)];
    free = std::max(free, now) + bytes / plan_.ports[static_cast<size_t>(port)];
    last = std::max(last, free);
  }
  return last + link.latency_s;
}

void Game::wake(int& waiting, double now) {
  if (waiting != kNobody) look(std::exchange(waiting, kNobody), now);
}

}  // namespace weft::simulation
