#include "engine/tuner/simulate_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "base/text.h"
#include "engine/algorithms/words.h"
#include "engine/schedule/lines.h"
#include "engine/schedule/moves.h"
#include "engine/schedule/window_lap.h"

namespace weft::simulation {
namespace {

// What is between two ranks, seen from the end that is played: the peer is how far it is away.
struct Between {
  Rank rank = 0;  // receiver or waiter
  int ahead = 0;  // of the sender or poster, modulo all ranks
  int id = 0;
  friend bool operator==(const Between&, const Between&) = default;
};

struct Hash {
  size_t operator()(const Between& b) const {
    uint64_t x = (static_cast<uint64_t>(b.rank) << 32) ^ (static_cast<uint64_t>(b.ahead) << 12) ^
                 static_cast<uint64_t>(b.id);
    x *= 0x9e3779b97f4a7c15u;
    return static_cast<size_t>(x ^ (x >> 29));
  }
};

class Planner {
 public:
  Planner(const Trial& trial, const Network& network, int ranks)
      : trial_(trial), network_(network), all_(trial.collective.ranks) {
    plan_.ranks = ranks;
    plan_.touched.resize(static_cast<size_t>(ranks));
  }

  Result<Plan> make() {
    WEFT_TRY(check_blocks());
    for (Rank rank = 0; rank < plan_.ranks; ++rank) {
      Program program = trial_.algorithm->build(trial_.collective, rank, trial_.parameters);
      if (trial_.copies > 1 && program.copies == 1)
        program = replicate(std::move(program), trial_.copies);
      plan_.copies = program.copies;
      plan_.message_chunks = program.message_chunks;
      plan_.pieces = program.pieces;
      plan_.window_slots = program.window_slots;
      plan_.crowded = network_.node_cores > 0;
      plan_.traffic = traffic_of(trial_.collective.kind, trial_.algorithm->hands_back);
      plan_.window_halves = program.window_halves;
      plan_.chunks = blocks(trial_.collective) * program.pieces;
      touched_.resize(2 * static_cast<size_t>(plan_.chunks), kNobody);
      for (size_t l = 0; l < program.lanes.size(); ++l)
        add(program.lanes[l], rank, static_cast<int>(l));
      if (plan_.steps > trial_.step_budget) return too_many();
    }
    return std::move(plan_);
  }

 private:
  // Before any is noted.
  Status check_blocks() const {
    constexpr int64_t kBlocksPerStep = 128, kLargest = int64_t{1} << 30;
    const int64_t count = int64_t{all_} * (pairwise(trial_.collective.kind) ? all_ : 1);
    const double most = std::min<double>(kLargest, kBlocksPerStep * trial_.step_budget);
    if (static_cast<double>(count) <= most) return {};
    return unsupported(concat(name(trial_.collective.kind), " of ", all_, " ranks has ", count,
                              " blocks, and a budget (--budget) of ",
                              static_cast<int64_t>(trial_.step_budget), " steps serves ",
                              static_cast<int64_t>(most), ", none more than ", kLargest,
                              "; allow more, or simulate fewer ranks."));
  }

  Status too_many() const {
    return unsupported(
        concat("Algorithm ", trial_.algorithm->name, " of ", all_, " ranks, of which ", plan_.ranks,
               " have to be played on this network, has more steps in ",
               "one round than the budget (--budget) of ", static_cast<int64_t>(trial_.step_budget),
               "; allow more, or simulate fewer ranks."));
  }

  void add(const Lane& lane, Rank rank, int number) {
    const int begin = static_cast<int>(plan_.ops.size());
    bool begins = true;
    toucher_ = rank * plan_.copies + lane.copy;
    for (const Step& step : lane.steps) {
      add(step, rank, begins);
      begins = !step.more;
    }
    plan_.lanes.push_back({rank, number, lane.copy, begin, static_cast<int>(plan_.ops.size())});
  }

  void add(const Step& step, Rank rank, bool begins) {
    Op op;
    op.begins = begins;
    op.folds = step.operands() > 1;
    op.ends = !step.more;
    op.chunk = step.chunk;
    op.times = step.times;
    op.stride = step.stride;
    add_streams(step, rank, op);
    if (step.from.used()) op.from = link(step.from.peer, rank, step.from.id);
    if (step.to.used()) op.to = link(rank, step.to.peer, step.to.id);
    if (step.to.used() && op.ends) plan_.links[static_cast<size_t>(op.to)].messages += step.times;
    op.lines = trial_.ll && (reads_window(step) || writes_window(step));
    if (op.lines)
      for (const Operand& source : step.sources) op.signals += source.buffer == Buffer::window;
    op.waits_begin = static_cast<int>(plan_.waits.size());
    for (const Signal& s : step.waits) {
      plan_.waits.push_back({cell(s.peer, rank, s), s.lag});
      op.signals += s.peer != rank && !known(s) && !(trial_.ll && carried_by_lines(step, s));
    }
    op.waits_end = static_cast<int>(plan_.waits.size());
    op.posts_begin = static_cast<int>(plan_.posts.size());
    for (const Signal& s : step.posts) {
      plan_.posts.push_back(cell(rank, s.peer, s));
      op.signals += s.peer != rank && !known(s) && !(trial_.ll && posts_by_lines(step));
    }
    op.posts_end = static_cast<int>(plan_.posts.size());
    plan_.steps += step.times;
    plan_.ops.push_back(op);
  }

  // As in executor/plan.cc, where an exchange is priced (Simulation::make): such signals cost
  // nothing, but it is here that ranks wait for each other in call after call. On shared cores that
  // counts the switches twice.
  bool known(const Signal& s) const {
    return trial_.algorithm->readable && is_of(s, trial_.algorithm->entered, plan_.copies);
  }

  void add_streams(const Step& step, Rank rank, Op& op) {
    const bool by_memory = only_sends(step) || (only_receives(step) && !step.finish);
    op.by_slots = !op.begins || !op.ends || !by_memory;  // as in executor/plan.cc
    if (step.from.used()) {
      add_message(step.from.peer, rank, op);
      touched(rank).receives = true;
    }
    if (step.to.used()) {
      add_message(rank, step.to.peer, op);
      touched(rank).sends = true;
    }
    if (trial_.algorithm->readable && step.sources.size() == 1 && step.sources[0].rank >= 0)
      return add_pull(step, rank, op);
    for (const Operand& source : step.sources) add_stream(source, false, step, rank, op);
    for (const Operand& target : step.targets) {
      const double before = op.fresh;
      add_stream(target, true, step, rank, op);
      if (target.buffer != Buffer::output || &target != &step.targets[0]) continue;
      op.results = op.fresh - before;
      touched(rank).results += op.results * step.times / plan_.copies;
    }
  }

  void add_pull(const Step& step, Rank rank, Op& op) {
    op.pulled += 1;
    touched(rank).all += 2.0 * step.times / plan_.copies;  // which it reads, and where that goes
    touched(rank).pulls = true;
  }

  void add_stream(const Operand& operand, bool writes, const Step& step, Rank rank, Op& op) {
    if (operand.buffer == Buffer::window) {
      const bool others = operand.rank >= 0 && operand.rank != rank;
      const bool kept = others && in_cache(operand.rank, rank);
      const bool back = trial_.algorithm->hands_back && writes;
      (kept ? op.again : back ? op.back : op.shared) += 1;
      (others ? touched(rank).read : touched(rank).written) += double(step.times) / plan_.copies;
    } else if (operand.buffer == Buffer::scratch) {
      op.again += 1;
    } else {
      const int chunks = touch(operand.buffer, step);
      const double fresh = double(chunks) / step.times;
      touched(rank).all += double(chunks) / plan_.copies;
      op.fresh += fresh;
      op.again += 1 - fresh;
    }
  }

  // What a rank moves into or out of a slot. A medium's rate for ranks covers slots where memory is
  // mapped. Else what is under way is written to the socket's memory, and read there, and those
  // that have a slot are read and written there once more.
  void add_message(Rank from, Rank to, Op& op) const {
    const Medium& way = *path(network_, from, to, all_, plan_.ranks).medium;
    if (is_socket(way))
      op.moved += op.by_slots ? 3 : 1;
    else if (way.rank_rates.empty() || in_cache(from, to))
      op.again += 1;
  }

  // Without rates ranks move nothing into the medium themselves.
  static bool is_socket(const Medium& medium) {
    return !medium.mapped && !medium.rank_rates.empty();
  }

  bool in_cache(Rank a, Rank b) const {
    return network_.inside.mapped &&
           network_.first_of_core(a, all_) == network_.first_of_core(b, all_);
  }

  Plan::Touched& touched(Rank rank) { return plan_.touched[static_cast<size_t>(rank)]; }

  // How many of the step's chunks the rank touches there for the first time. Each copy of a lane
  // has rounds of its own.
  int touch(Buffer buffer, const Step& step) {
    const size_t side = buffer == Buffer::output ? static_cast<size_t>(plan_.chunks) : 0;
    int fresh = 0;
    for (int i = 0; i < step.times; ++i) {
      int& last = touched_[side + static_cast<size_t>(chunk_at(step, i, plan_.chunks))];
      fresh += std::exchange(last, toucher_) != toucher_;
    }
    return fresh;
  }

  Between between(Rank from, Rank to, int id) const {
    return {to % plan_.ranks, wrap(from - to, all_), id};
  }

  int link(Rank from, Rank to, int id) {
    const auto [at, fresh] =
        links_.try_emplace(between(from, to, id), static_cast<int>(plan_.links.size()));
    if (!fresh) return at->second;
    const Path way = path(network_, from, to, all_, plan_.ranks);
    Link& link = plan_.links.emplace_back();
    link.latency_s = way.latency_s;
    link.between = way.medium == &network_.between;
    if (!link.between) {
      link.from = from % plan_.ranks;
      link.to = to % plan_.ranks;
    }
    link.in_cache = in_cache(from, to);
    link.socket = is_socket(*way.medium);
    for (const Port port : way.ports) link.ports.push_back(number(port));
    return at->second;
  }

  int number(Port port) {
    const auto [at, fresh] = ports_.try_emplace(port, static_cast<int>(plan_.ports.size()));
    if (fresh) plan_.ports.push_back(port_rate(network_, port));
    return at->second;
  }

  int cell(Rank poster, Rank waiter, const Signal& signal) {
    const auto [at, fresh] = cells_.try_emplace(between(poster, waiter, signal.cell),
                                                static_cast<int>(plan_.cells.size()));
    if (!fresh) return at->second;
    Cell& cell = plan_.cells.emplace_back();
    if (network_.node_of(poster) == network_.node_of(waiter)) cell.poster = poster % plan_.ranks;
    if (poster != waiter && !known(signal))
      cell.latency_s = path(network_, poster, waiter, all_, plan_.ranks).latency_s;
    return at->second;
  }

  const Trial& trial_;
  const Network& network_;
  const int all_;
  Plan plan_;
  std::vector<int> touched_;  // by buffer and chunk: the last rank, and copy of its lanes, that did
  int toucher_ = 0;           // which is at work
  std::unordered_map<Between, int, Hash> links_, cells_;
  std::unordered_map<Port, int> ports_;
};

}  // namespace

int Plan::lease_depth(double round_bytes, int rounds, bool ll) const {
  if (window_slots == 0) return std::numeric_limits<int>::max();
  const double slot = ll ? lines_of(round_bytes) * kLineBytes : std::ceil(round_bytes / 64) * 64;
  const double bytes = slot * window_slots * std::clamp(rounds, 1, window_halves);
  return static_cast<int>(static_cast<double>(lap(bytes)) / bytes);
}

size_t Plan::lap(double bytes) const {
  return window_lap(std::max<size_t>(1, static_cast<size_t>(bytes)), traffic, crowded);
}

int representatives(const Trial& trial, const Network& network) {
  const int all = trial.collective.ranks;
  if (!trial.representatives || trial.short_blocks || !trial.algorithm->turn) return all;
  const int turn = trial.algorithm->turn(trial.collective, trial.parameters);
  if (turn == 0) return all;
  const int both = std::lcm(turn, network.period(all));
  return both < all && all % both == 0 ? both : all;
}

Result<Plan> make_plan(const Trial& trial, const Network& network, int ranks) {
  return Planner(trial, network, ranks).make();
}

}  // namespace weft::simulation
