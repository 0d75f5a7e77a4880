#include "engine/tuner/simulate.h"

#include <algorithm>
#include <cmath>
#include <queue>
#include <utility>

#include "base/text.h"
#include "engine/tuner/simulate_plan.h"

namespace weft {
namespace {

using simulation::Link;
using simulation::Op;
using simulation::Plan;
using simulation::PlayedLane;
using simulation::Wait;

constexpr int kNobody = -1;
constexpr double kLeastRounds = 8;  // enough to see a pace
constexpr double kGranule = 64;     // bytes that blocks are cut into pieces at

class Game {
 public:
  // `pieces_used`: how many of every block's pieces are not empty.
  Game(const Plan& plan, const Trial& trial, const Network& network, double round_bytes,
       double footprint, int pieces_used)
      : plan_(plan),
        trial_(trial),
        network_(network),
        bytes_(round_bytes),
        pieces_used_(pieces_used),
        fresh_rate_(network.memory_rate(footprint)),
        again_rate_(network.memory_rate(std::min(footprint, 2 * round_bytes * plan.chunks))) {}

  // The time that a message of `rounds` rounds takes.
  Result<double> play(double rounds, std::vector<SimulatedStep>* trace) {
    reset(static_cast<int>(rounds));
    trace_ = trace;
    for (int lane = 0; lane < int(lanes_.size()); ++lane) begin(lane, 0);
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      event.ends ? end(event.lane, event.at) : begin(event.lane, event.at);
    }
    if (ended_ == int(lanes_.size())) return last_;
    return Status(Code::internal, concat("The schedule of ", trial_.algorithm->name,
                                         " blocks with ", trial_.slots, " slots per link."));
  }
  double steps() const { return steps_; }

 private:
  struct Event {
    double at = 0;
    uint64_t order = 0;
    int lane = 0;
    bool ends = false;  // of the step at hand; else it may begin
    bool operator<(const Event& other) const {
      return at != other.at ? at > other.at : order > other.order;
    }
  };
  struct LaneState {
    int op = 0, time = 0, round = 0, rounds = 0;
    double message = 0;  // bytes of the message at hand
    double began = 0;
  };
  struct LinkState {
    int64_t sent = 0, received = 0;
    int receiver = kNobody, sender = kNobody;  // lanes that wait for it
  };
  struct CellState {
    std::vector<double> posts;
    std::vector<int> waiting;
  };
  struct Core {
    double free = 0;
    Rank last = kNobody;
  };

  void reset(int rounds) {
    lanes_.assign(plan_.lanes.size(), {});
    links_.assign(plan_.links.size(), {});
    arrives_.assign(plan_.links.size() * static_cast<size_t>(trial_.slots), 0);
    free_.assign(arrives_.size(), 0);
    cells_.assign(plan_.cells.size(), {});
    ports_.assign(plan_.ports.size(), 0);
    cores_.assign(static_cast<size_t>(plan_.ranks), {});
    ended_ = 0;
    last_ = 0;
    for (size_t l = 0; l < lanes_.size(); ++l) {
      const PlayedLane& lane = plan_.lanes[l];
      lanes_[l].op = lane.begin;
      lanes_[l].rounds = (rounds - lane.copy + plan_.copies - 1) / plan_.copies;
      if (lanes_[l].rounds <= 0 || lane.begin == lane.end) lanes_[l].rounds = 0, ++ended_;
    }
  }

  size_t slot(int link, int64_t message) const {
    return static_cast<size_t>(link * int64_t{trial_.slots} + message % trial_.slots);
  }

  void at(double time, int lane, bool ends) { events_.push({time, order_++, lane, ends}); }

  Core& core_of(Rank rank) {
    if (network_.node_cores == 0) return cores_[static_cast<size_t>(rank)];
    const int per_node = network_.node_ranks > 0 ? network_.node_ranks : plan_.ranks;
    const int first = rank / per_node * per_node;
    return cores_[static_cast<size_t>(first + (rank - first) % network_.node_cores)];
  }

  // Begins the step at hand, or leaves word where it is to be woken.
  void begin(int lane, double now) {
    LaneState& state = lanes_[static_cast<size_t>(lane)];
    if (state.round >= state.rounds) return;
    const Op& op = plan_.ops[static_cast<size_t>(state.op)];
    double ready = now;
    if (op.begins && !may_begin(lane, op, ready)) return;
    Core& core = core_of(plan_.lanes[static_cast<size_t>(lane)].rank);
    ready = std::max(ready, core.free);
    if (ready > now) return at(ready, lane, false);
    state.began = now;
    core.free = now + time_of(op, lane, core);
    at(core.free, lane, true);
  }

  // Both ends know the sizes: of an empty chunk there is no message.
  bool empty(const Op& op, int time) const {
    return pieces_used_ < plan_.pieces &&
           chunk_at(op, time, plan_.chunks) % plan_.pieces >= pieces_used_;
  }

  bool may_begin(int lane, const Op& op, double& ready) {
    const LaneState& state = lanes_[static_cast<size_t>(lane)];
    const bool moves = !empty(op, state.time);
    if (op.from >= 0 && moves) {
      LinkState& link = links_[static_cast<size_t>(op.from)];
      if (link.sent == link.received) return link.receiver = lane, false;
      ready = std::max(ready, arrives_[slot(op.from, link.received)]);
    }
    if (op.to >= 0 && moves) {
      LinkState& link = links_[static_cast<size_t>(op.to)];
      if (link.sent - link.received >= trial_.slots) return link.sender = lane, false;
      if (link.sent >= trial_.slots) ready = std::max(ready, free_[slot(op.to, link.sent)]);
    }
    for (int w = op.waits_begin; w < op.waits_end; ++w) {
      const Wait& wait = plan_.waits[static_cast<size_t>(w)];
      CellState& cell = cells_[static_cast<size_t>(wait.cell)];
      const int post = state.round - wait.lag;
      if (post < 0) continue;
      if (post >= int(cell.posts.size())) return cell.waiting.push_back(lane), false;
      ready = std::max(ready, cell.posts[static_cast<size_t>(post)]);
    }
    return true;
  }

  // How long the step keeps its core.
  double time_of(const Op& op, int lane, Core& core) {
    const Rank rank = plan_.lanes[static_cast<size_t>(lane)].rank;
    double time = network_.step_s;
    if (core.last != rank && core.last != kNobody) time += network_.switch_s;
    core.last = rank;
    if (empty(op, lanes_[static_cast<size_t>(lane)].time)) return time;
    if (fresh_rate_ > 0) time += (op.fresh / fresh_rate_ + op.again / again_rate_) * bytes_;
    if (network_.inside.rank_rate > 0) time += op.shared * bytes_ / network_.inside.rank_rate;
    if (op.from >= 0) time += message_time(op, plan_.links[static_cast<size_t>(op.from)], false);
    if (op.to >= 0) time += message_time(op, plan_.links[static_cast<size_t>(op.to)], true);
    return time;
  }

  double message_time(const Op& op, const Link& link, bool sends) const {
    const Medium& medium = link.between ? network_.between : network_.inside;
    const double each = sends ? medium.send_s : medium.recv_s;
    const double messages = op.begins ? 1 : 0;
    return messages * each + (medium.rank_rate > 0 ? bytes_ / medium.rank_rate : 0);
  }

  void end(int lane, double now) {
    LaneState& state = lanes_[static_cast<size_t>(lane)];
    const PlayedLane& played = plan_.lanes[static_cast<size_t>(lane)];
    const Op& op = plan_.ops[static_cast<size_t>(state.op)];
    ++steps_;
    if (trace_)
      trace_->push_back(
          {played.rank, played.number, state.op - played.begin, state.round, state.began, now});
    if (!empty(op, state.time)) {
      state.message += bytes_;
      if (op.ends) pass_on(op, state, now);
    }
    if (op.ends) post(op, now);
    last_ = std::max(last_, now);
    if (++state.time == op.times) {
      state.time = 0;
      if (++state.op == played.end) state.op = played.begin, ++state.round;
    }
    if (state.round == state.rounds)
      ++ended_;
    else
      begin(lane, now);
  }

  // The messages of a step that has ended.
  void pass_on(const Op& op, LaneState& state, double now) {
    const double bytes = std::exchange(state.message, 0);
    if (op.from >= 0) {
      LinkState& link = links_[static_cast<size_t>(op.from)];
      free_[slot(op.from, link.received++)] =
          now + plan_.links[static_cast<size_t>(op.from)].latency_s;
      wake(link.sender, now);
    }
    if (op.to >= 0) {
      LinkState& link = links_[static_cast<size_t>(op.to)];
      arrives_[slot(op.to, link.sent++)] =
          arrival(plan_.links[static_cast<size_t>(op.to)], bytes, now);
      wake(link.receiver, now);
    }
  }

  void post(const Op& op, double now) {
    for (int p = op.posts_begin; p < op.posts_end; ++p) {
      const auto number = static_cast<size_t>(plan_.posts[static_cast<size_t>(p)]);
      cells_[number].posts.push_back(now + plan_.cells[number]);
      for (const int lane : std::exchange(cells_[number].waiting, {})) begin(lane, now);
    }
  }

  // The message takes all ports of its way at once, and each for as long as its rate needs.
  double arrival(const Link& link, double bytes, double now) {
    double start = now, slowest = 0;
    for (const int port : link.ports) start = std::max(start, ports_[static_cast<size_t>(port)]);
    for (const int port : link.ports) {
      const double time = bytes / plan_.ports[static_cast<size_t>(port)];
      ports_[static_cast<size_t>(port)] = start + time;
      slowest = std::max(slowest, time);
    }
    return start + slowest + link.latency_s;
  }

  void wake(int& waiting, double now) {
    if (waiting != kNobody) begin(std::exchange(waiting, kNobody), now);
  }

  const Plan& plan_;
  const Trial& trial_;
  const Network& network_;
  const double bytes_;  // of a chunk in one round
  const int pieces_used_;
  const double fresh_rate_, again_rate_;
  std::vector<SimulatedStep>* trace_ = nullptr;

  std::vector<LaneState> lanes_;
  std::vector<LinkState> links_;
  std::vector<double> arrives_, free_;  // by link, by message modulo slots
  std::vector<CellState> cells_;
  std::vector<double> ports_;  // when each is free again
  std::vector<Core> cores_;
  std::priority_queue<Event> events_;
  uint64_t order_ = 0;
  int ended_ = 0;
  double last_ = 0;
  double steps_ = 0;
};

}  // namespace

Simulation::Simulation(Trial trial, Network network, std::unique_ptr<Plan> plan)
    : trial_(std::move(trial)), network_(std::move(network)), plan_(std::move(plan)) {}
Simulation::Simulation(Simulation&&) noexcept = default;
Simulation& Simulation::operator=(Simulation&&) noexcept = default;
Simulation::~Simulation() = default;

double block_bytes(const Collective& c, double bytes) {
  switch (c.kind) {
    case Kind::all_reduce:
    case Kind::reduce:
    case Kind::broadcast: return bytes;
    case Kind::barrier: return 1;
    default: return bytes / c.ranks;
  }
}

bool shares_memory(const Network& network, int ranks) {
  return network.nodes(ranks) == 1 && network.inside.port_rate == 0;
}

Result<Simulation> Simulation::make(const Trial& trial, const Network& network) {
  WEFT_TRY(check(network, trial.collective.ranks));
  if (trial.algorithm->windows && !shares_memory(network, trial.collective.ranks))
    return unsupported(concat("Algorithm ", trial.algorithm->name,
                              " needs all ranks to share memory, which network \"", network.name,
                              "\" is not said to have: one node, without ports."));
  const int ranks = simulation::representatives(trial, network);
  Result<Plan> plan = simulation::make_plan(trial, network, ranks);
  if (!plan.ok()) return plan.status();
  return Simulation(trial, network, std::make_unique<Plan>(plan.take()));
}

// Messages of several chunks are played as if all were there.
int Simulation::pieces_used(double bytes) const {
  const double block = block_bytes(trial_.collective, bytes);
  if (!trial_.short_blocks || plan_->message_chunks > 1 || block <= 0) return plan_->pieces;
  const double piece = std::ceil(block / plan_->pieces / kGranule) * kGranule;
  return std::min(plan_->pieces, static_cast<int>(std::ceil(block / piece)));
}

Result<Simulated> Simulation::run(double bytes, std::vector<SimulatedStep>* trace) const {
  Simulated result;
  result.ranks = plan_->ranks;
  const int pieces = pieces_used(bytes);
  const double chunk = block_bytes(trial_.collective, bytes) / pieces;
  const double link_room = trial_.slot_bytes * (trial_.slots / 2) / plan_->message_chunks;
  const double segment = std::max(1.0, std::min(trial_.segment_bytes, link_room));
  result.rounds = std::max(1.0, std::ceil(chunk / segment));
  const double affordable = std::floor(trial_.step_budget / std::max(1.0, plan_->steps));
  result.rounds_played = std::min(result.rounds, std::max(kLeastRounds, affordable));

  Game game(*plan_, trial_, network_, chunk / result.rounds, 2 * bytes, pieces);
  const double played = result.rounds_played;
  const Result<double> whole = game.play(played, trace);
  if (!whole.ok()) return whole.status();
  result.seconds = network_.call_s + *whole;
  if (result.rounds > played) {
    const double half = std::floor(played / 2), quarter = std::floor(played / 4);
    const Result<double> of_half = game.play(half, nullptr);
    const Result<double> of_quarter = game.play(quarter, nullptr);
    if (!of_half.ok() || !of_quarter.ok()) return of_half.status();
    const double pace = (*whole - *of_half) / (played - half);
    const double earlier = (*of_half - *of_quarter) / (half - quarter);
    result.settled = std::abs(pace - earlier) <= 0.1 * pace;
    result.seconds += (result.rounds - played) * pace;
  }
  result.steps = game.steps();
  return result;
}

}  // namespace weft
