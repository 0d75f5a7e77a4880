#include "bench/price_job.h"

#include <algorithm>
#include <cstdio>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/json_object.h"
#include "base/text.h"
#include "bench/buffer.h"
#include "bench/cases.h"
#include "bench/gather.h"
#include "bench/invocation.h"
#include "bench/machine.h"
#include "bench/prices.h"
#include "bench/statistics.h"
#include "bootstrap/cpus.h"
#include "engine/measure/node.h"
#include "engine/tuner/tuning.h"

namespace weft::bench {
namespace {

// Passes through all ways, in a round: whatever else runs does so for less than all of them. Of
// short calls there are more, as the states are many that ranks which share cores may fall into.
constexpr int kPassesAtLeast = 4, kPassesAtMost = 12;
constexpr int kIterationsAtLeast = 2, kIterationsAtMost = 300;  // in a pass
constexpr double kWakeUs = 50e3;
constexpr size_t kBytesMoved = size_t{128} << 20;  // of a way in all passes, about
// What the machine's parts may differ by, before a round and behind.
constexpr double kSteady = 1.3;

// "ring", "knomial r4 x2 16K": what is not as usual is named. Ways of equal names are equal.
std::string name_of(const CallInfo::Price& price) {
  std::string name = price.algorithm;
  if (price.protocol == "ll") name.append("/ll");
  if (price.radix != 2) name.append(concat(" r", price.radix));
  if (price.lanes != 1) name.append(concat(" x", price.lanes));
  if (price.segment_bytes != size_t{64} << 10)
    name.append(concat(" ", price.segment_bytes / 1024, "K"));
  return name;
}

std::vector<PricedWay> ways_of(const std::vector<CallInfo::Price>& prices) {
  std::vector<PricedWay> ways;
  for (const CallInfo::Price& price : prices)
    ways.push_back({name_of(price), price.seconds * 1e6, 0});
  return ways;
}

int iterations_of(size_t bytes) {
  return std::clamp(static_cast<int>(kBytesMoved / kPassesAtLeast / std::max<size_t>(1, bytes)),
                    kIterationsAtLeast, kIterationsAtMost);
}

int passes_of(size_t bytes) {
  const size_t calls = kBytesMoved / std::max<size_t>(1, bytes);
  return static_cast<int>(
      std::clamp<size_t>(calls / kIterationsAtMost, kPassesAtLeast, kPassesAtMost));
}

double message_s(const Network& n) {
  return n.inside.send_s + n.inside.latency_s + n.inside.recv_s;
}

// Whether prices that hold for one hold for the other, as far as the parts tell that scatter least:
// a message says how far apart cores are, steps and switches whether others use half of them.
bool close(const Network& a, const Network& b) {
  const auto near = [](double x, double y) { return std::max(x, y) <= kSteady * std::min(x, y); };
  return near(message_s(a), message_s(b)) && near(a.step_s, b.step_s) &&
         near(a.switch_s + a.switch_spread_s / 2, b.switch_s + b.switch_spread_s / 2);
}

class PriceJob {
 public:
  PriceJob(const BenchOptions& options, const Job& job)
      : options_(options), job_(job), input_(0), output_(0) {}

  Status run() {
    for (const Case& what : list_cases(options_, job_.size).cases)
      WEFT_TRY(run(what).within(describe(what)));
    return {};
  }

 private:
  Communicator& control() { return *team_.measured; }

  // By rank 0, while the others sleep; then ranks go on at once. The host may have the cores of a
  // machine that has rested somewhere else afterwards.
  Result<Network> measure_network() {
    Result<Network> measured = Network{};
    if (job_.rank == 0)
      std::thread([&] {
        unbind_from_cpus();
        Result<MeasuredNode> node = measure_node({options_.engine.transport});
        measured = node.ok() ? Result<Network>(node->networks.front()) : node.status();
      }).join();
    WEFT_TRY(job_.meet_asleep());
    return measured;
  }

  Status run(const Case& what) {
    const Layout layout = make_layout(what, job_.size, job_.rank);
    if (layout.message_count == 0) return {};  // too small for an element each
    const size_t size = size_of(what.type);
    const size_t in = layout.input_count * size, out = layout.output_count * size;
    if (!input_.reserve(in) || !output_.reserve(out))
      return Status(Code::system, "There is no memory for its buffers; lower -e/--maxbytes.");
    std::fill_n(input_.data(in).data(), in, std::byte{});
    std::fill_n(output_.data(out).data(), out, std::byte{});
    const Invocation invocation(what, layout, input_.of_calls(input_.data(in)),
                                output_.of_calls(output_.data(out)), {});
    return run(invocation, layout.message_count * size);
  }

  // The host may move this machine's cores together or apart, or have others run on half of them,
  // at any time, and all times change: so its parts are measured before and behind.
  Status run(const Invocation& invocation, size_t bytes) {
    const Result<Network> before = measure_network();
    if (!before.ok()) return before.status();
    PricedRound round{bytes, {}, message_s(*before) * 1e6, false};
    WEFT_TRY(run_round(invocation, *before, round));
    const Result<Network> after = measure_network();
    if (!after.ok()) return after.status();
    const Result<CallInfo> then = explain(invocation, *after);
    if (!then.ok()) return then.status();
    take_means(round.ways, ways_of(then->prices));
    WEFT_TRY(control().barrier());  // nobody leaves while another one still connects
    if (job_.rank != 0) return {};
    round.steady = close(*before, *after);
    std::printf("%s\n", json_text(to_json(round)).c_str());
    std::fflush(stdout);
    return {};
  }

  // What the ways cost by `network` (of rank 0).
  Result<CallInfo> explain(const Invocation& invocation, const Network& network) {
    if (job_.rank == 0)
      WEFT_TRY(write_tuning({this_machine().host, network, network}, options_.engine.tuning));
    Result<Team> team = job_.make_team(options_);
    if (!team.ok()) return team.status();
    team_ = team.take();
    return invocation.explain(control());
  }

  // Every way, priced by `network` so far.
  Status run_round(const Invocation& invocation, const Network& network, PricedRound& round) {
    Result<CallInfo> told = explain(invocation, network);
    if (!told.ok()) return told.status();
    if (told->prices.empty())
      return unsupported("There are no prices for this call on this job: nothing to check.");
    // The choice first: what the table takes may stay where another one is a little cheaper.
    std::stable_partition(
        told->prices.begin(), told->prices.end(),
        [&](const CallInfo::Price& price) { return price.algorithm == told->algorithm; });
    WEFT_TRY(wake(invocation, round.bytes));
    return run_passes(invocation, told->prices, round);
  }

  // Cores have rested while the machine was measured, and are slow, or far, for a while.
  Status wake(const Invocation& invocation, size_t bytes) {
    for (double us = 0; us < kWakeUs;) {
      const Result<double> mean = measure(invocation, bytes, control());
      if (!mean.ok()) return mean.status();
      us += *mean * iterations_of(bytes);
    }
    return {};
  }

  // Medians of passes, there and back: whoever came first would always come behind the most
  // expensive way.
  Status run_passes(const Invocation& invocation, const std::vector<CallInfo::Price>& prices,
                    PricedRound& round) {
    const size_t ways = prices.size();
    std::vector<Team> teams;
    for (const CallInfo::Price& price : prices) {
      Result<Team> team = bound_to(price);
      if (!team.ok()) return team.status();
      teams.push_back(team.take());
    }
    round.ways = ways_of(prices);
    std::vector<std::vector<double>> measured(ways);
    for (int pass = 0; pass < passes_of(round.bytes); ++pass)
      for (size_t i = 0; i < ways; ++i) {
        const size_t way = pass % 2 == 0 ? i : ways - 1 - i;
        const Result<double> mean = measure(invocation, round.bytes, *teams[way].measured);
        if (!mean.ok()) return mean.status();
        measured[way].push_back(*mean);
      }
    for (size_t way = 0; way < ways; ++way)
      round.ways[way].measured_us = summarize(std::move(measured[way])).median;
    return {};
  }

  Result<double> mean_of_ranks(double mine) {
    const auto all = gather_values(control(), mine);
    if (!all.ok()) return all.status();
    double sum = 0;
    for (const double each : *all) sum += each;
    return sum / static_cast<double>(all->size());
  }

  // Microseconds of a call.
  Result<double> measure(const Invocation& invocation, size_t bytes, Communicator& communicator) {
    const int iterations = iterations_of(bytes);
    // The ways before have filled the caches with memory of their own.
    for (int i = 0; i < iterations / 2; ++i) WEFT_TRY(invocation.run(communicator));
    WEFT_TRY(control().barrier());
    const int64_t begin = steady_clock().now_ns();
    for (int i = 0; i < iterations; ++i) WEFT_TRY(invocation.run(communicator));
    return mean_of_ranks(static_cast<double>(steady_clock().now_ns() - begin) * 1e-3 / iterations);
  }

  // A communicator that goes that way, and has found out nothing yet: a round may find a machine
  // on which what paid in the round before does not (engine/executor/store_trial.h).
  Result<Team> bound_to(const CallInfo::Price& price) {
    BenchOptions options = options_;
    options.engine.algorithm = price.algorithm;
    options.engine.protocol = price.protocol;
    options.engine.lanes = price.lanes;
    options.engine.radix = price.radix;
    options.engine.chunk_bytes = price.segment_bytes;
    return job_.make_team(options);
  }

  const BenchOptions& options_;
  const Job& job_;
  Team team_;
  Buffer input_, output_;
};

}  // namespace

int run_price_job(const BenchOptions& options, const Job& job) {
  const Status status = PriceJob(options, job).run();
  if (status.ok()) return kExitOk;
  complain(concat("rank ", job.rank, ": ", status.to_string()));
  return exit_with(status);
}

}  // namespace weft::bench
