#include "engine/tuner/simulate.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/text.h"
#include "engine/tuner/simulate_game.h"

namespace weft {
namespace {

using simulation::Game;
using simulation::Plan;

constexpr double kLeastRounds = 8;                 // enough to see a pace
constexpr double kMostRounds = 1 << 20;            // played, whatever the budget
constexpr int kFewestCalls = 2, kMostCalls = 256;  // played for the pace of repeated ones
constexpr double kGranule = 64;                    // bytes that blocks are cut into pieces at

}  // namespace

Simulation::Simulation(Trial trial, Network network, std::unique_ptr<Plan> plan)
    : trial_(std::move(trial)), network_(std::move(network)), plan_(std::move(plan)) {}
Simulation::Simulation(Simulation&&) noexcept = default;
Simulation& Simulation::operator=(Simulation&&) noexcept = default;
Simulation::~Simulation() = default;

double block_bytes(const Collective& c, double bytes) {
  return c.kind == Kind::barrier ? 1 : bytes / message_blocks(c.kind, c.ranks);
}

bool shares_memory(const Network& network, int ranks) {
  return network.nodes(ranks) == 1 && network.inside.port_rate == 0;
}

namespace {

// Whether executors have room for it (executor/plan.cc).
Status check_room(const Trial& trial, const Plan& plan) {
  constexpr double kElement = 16, kLines = 64 << 10;  // the largest type; the ring of lines
  const double link = trial.slot_bytes * (trial.slots / 2) / plan.message_chunks;
  const double window = simulation::kLineBytes * plan.window_slots * plan.window_halves;
  const bool links_fit = plan.links.empty() || trial.slots < 2 || link >= kElement;
  if (links_fit && (!trial.ll || window <= kLines)) return {};
  return unsupported(
      concat("Algorithm ", trial.algorithm->name, " of ", trial.collective.ranks,
             " ranks needs more room than links (--slot, --slots) or windows have."));
}

// Of ranks that tell each other where their inputs lie (engine/engine_memory.cc).
Result<double> exchange_s(const Trial& trial, const Network& network) {
  constexpr double kPlaces = 40;
  Trial exchange;
  exchange.algorithm = find_algorithm("window_one_shot");
  exchange.collective = {Kind::all_gather, trial.collective.ranks, 0, false};
  exchange.ll = true;
  exchange.repeated = trial.repeated;
  exchange.step_budget = trial.step_budget;
  const auto simulation = Simulation::make(exchange, network);
  if (!simulation.ok()) return simulation.status();
  const auto result = simulation->run(kPlaces * trial.collective.ranks);
  if (!result.ok()) return result.status();
  return result->seconds;
}

}  // namespace

Result<Simulation> Simulation::make(const Trial& trial, const Network& network) {
  WEFT_TRY(check(network, trial.collective.ranks));
  if (trial.algorithm->windows && !shares_memory(network, trial.collective.ranks))
    return unsupported(concat("Algorithm ", trial.algorithm->name,
                              " needs all ranks to share memory, which network \"", network.name,
                              "\" is not said to have: one node, without ports."));
  const bool readable = trial.algorithm->readable;
  if (readable && network.inside.read_rates.empty())
    return unsupported(concat("Algorithm ", trial.algorithm->name,
                              " needs ranks to read each other's memory, which network \"",
                              network.name, "\" is not said to allow (\"read\")."));
  Network played = network;
  if (!network.shares_cores(trial.collective.ranks)) played.node_cores = 0;  // a core each
  const int ranks = simulation::representatives(trial, played);
  Result<Plan> plan = simulation::make_plan(trial, played, ranks);
  if (!plan.ok()) return plan.status();
  WEFT_TRY(check_room(trial, *plan));
  Simulation simulation(trial, std::move(played), std::make_unique<Plan>(plan.take()));
  if (!readable || trial.collective.ranks == 1) return simulation;
  const Result<double> before = exchange_s(trial, network);
  if (!before.ok()) return before.status();
  simulation.exchange_s_ = *before;
  return simulation;
}

int Simulation::pieces_used(double bytes) const {
  const double block = block_bytes(trial_.collective, bytes);
  if (!trial_.short_blocks || block <= 0) return plan_->pieces;
  const double piece = std::ceil(block / plan_->pieces / kGranule) * kGranule;
  return std::min(plan_->pieces, static_cast<int>(std::ceil(block / piece)));
}

// Ranks that run ahead do so until links, or windows, are full: then the pace is steady.
int Simulation::calls_played(double steps) const {
  if (!trial_.repeated) return 1;
  constexpr double kLoopSteps = 10e3;
  const double affordable = std::min(trial_.step_budget, kLoopSteps) / steps;
  return static_cast<int>(std::clamp<double>(affordable, kFewestCalls, kMostCalls));
}

simulation::Sizes Simulation::sizes(double bytes, double chunk, double rounds) const {
  simulation::Sizes sizes;
  sizes.round_bytes = chunk / rounds;
  sizes.pieces_used = pieces_used(bytes);
  const Collective& c = trial_.collective;
  const int neighbours = network_.node_ranks > 0 ? std::min(network_.node_ranks, c.ranks) : c.ranks;
  sizes.streams =
      network_.stream_rate > 0 && results_stream(c.kind, c.ranks, neighbours, block_bytes(c, bytes),
                                                 network_.cached_bytes(neighbours));
  sizes.chunk_bytes = chunk;
  return sizes;
}

Result<Simulated> Simulation::run(double bytes, std::vector<SimulatedStep>* trace) const {
  Simulated result;
  result.ranks = plan_->ranks;
  const int pieces = pieces_used(bytes);
  const double chunk = block_bytes(trial_.collective, bytes) / pieces;
  const double link_room = trial_.slot_bytes * (trial_.slots / 2) / plan_->message_chunks;
  const double segment = std::max(1.0, std::min(trial_.segment_bytes, link_room));
  result.rounds = std::max(1.0, std::ceil(chunk / segment));
  const double steps = std::max(1.0, plan_->steps);
  const int calls = calls_played(result.rounds * steps);
  const double affordable = std::floor(trial_.step_budget / steps / calls);
  result.rounds_played = std::min({result.rounds, std::max(kLeastRounds, affordable), kMostRounds});

  Game game(*plan_, trial_, network_, sizes(bytes, chunk, result.rounds));
  const double played = result.rounds_played;
  const Result<double> whole = game.play(played, calls, trace);
  if (!whole.ok()) return whole.status();
  result.seconds = *whole + exchange_s_ + (calls == 1 ? network_.call_s : 0);
  if (result.rounds > played) {
    const double half = std::floor(played / 2), quarter = std::floor(played / 4);
    const Result<double> of_half = game.play(half, calls, nullptr);
    const Result<double> of_quarter = game.play(quarter, calls, nullptr);
    if (!of_half.ok()) return of_half.status();
    if (!of_quarter.ok()) return of_quarter.status();
    const double pace = (*whole - *of_half) / (played - half);
    const double earlier = (*of_half - *of_quarter) / (half - quarter);
    result.settled = std::abs(pace - earlier) <= 0.1 * pace;
    result.seconds += (result.rounds - played) * pace;
  }
  result.steps = game.steps();
  return result;
}

}  // namespace weft
