#include "bench/price_job.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <thread>

#include "base/clock.h"
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

constexpr int kIterationsAtLeast = 4, kIterationsAtMost = 2000;
constexpr size_t kBytesMoved = size_t{64} << 20;  // in one measurement, about
constexpr int kProbe = 200;                       // barriers
constexpr double kMoved = 1.5;   // what they may change by before the cores count as moved
constexpr double kSteady = 1.3;  // what the machine's parts may differ by, before a size and behind
constexpr int kTriesOfRound = 12;  // that are spent on waiting for cores that have moved

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

double message_s(const Network& n) {
  return n.inside.send_s + n.inside.latency_s + n.inside.recv_s;
}

// Whether prices that hold for one hold for the other: links, and what a core does by itself.
bool close(const Network& a, const Network& b) {
  const auto near = [](double x, double y) { return std::max(x, y) <= kSteady * std::min(x, y); };
  return near(message_s(a), message_s(b)) && near(a.step_s, b.step_s) &&
         near(a.inside.rank_rates.back().rate, b.inside.rank_rates.back().rate);
}

class PriceJob {
 public:
  PriceJob(const BenchOptions& options, const Job& job)
      : options_(options), job_(job), input_(0), output_(0) {}

  Status run() {
    WEFT_TRY(write_prices());
    Result<Team> team = job_.make_team(options_);
    if (!team.ok()) return team.status();
    team_ = team.take();
    for (const Case& what : list_cases(options_, job_.size).cases)
      WEFT_TRY(run(what).within(describe(what)));
    return control().barrier();
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

  // The choice, and the prices, of all communicators made from now on.
  Status write_prices() {
    Result<Network> measured = measure_network();
    if (!measured.ok()) return measured.status();
    priced_ = measured.take();
    if (job_.rank != 0) return {};
    return write_tuning({this_machine().host, priced_, priced_}, options_.engine.tuning);
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
    Result<CallInfo> told = invocation.explain(control());
    if (!told.ok()) return told.status();
    // The choice first: what the table takes may stay where another one is a little cheaper.
    std::stable_partition(
        told->prices.begin(), told->prices.end(),
        [&](const CallInfo::Price& price) { return price.algorithm == told->algorithm; });
    if (told->prices.empty())
      return unsupported("There are no prices for this call on this job: nothing to check.");
    PricePoint point{layout.message_count * size, {}};
    for (const CallInfo::Price& price : told->prices)
      point.ways.push_back({name_of(price), price.seconds * 1e6, 0});
    const Result<double> as_priced = probe();
    if (!as_priced.ok()) return as_priced.status();
    int tries = kTriesOfRound * options_.rounds;
    const size_t ways = point.ways.size();
    std::vector<std::vector<double>> means(ways);  // by way, by round
    for (int round = 0; round < options_.rounds; ++round)
      for (size_t i = 0; i < ways; ++i) {
        // There and back: whoever came first would always come behind the most expensive one.
        const size_t way = round % 2 == 0 ? i : ways - 1 - i;
        const Result<double> mean = measure_as_priced(invocation, told->prices[way], *as_priced,
                                                      tries, point, point.ways[way]);
        if (!mean.ok()) return mean.status();
        means[way].push_back(*mean);
      }
    for (size_t way = 0; way < ways; ++way)
      point.ways[way].measured_us = summarize(std::move(means[way])).median;
    const Result<Network> after = measure_network();
    if (!after.ok() || job_.rank != 0) return after.status();
    point.message_us = message_s(priced_) * 1e6;
    point.steady = close(priced_, *after);
    std::printf("%s\n", to_json(point).dump().c_str());
    std::fflush(stdout);
    return {};
  }

  // The host may move this machine's cores together or apart at any time, and all times change.
  // What was measured while they were not where they were when the prices were taken does not
  // count, as long as there are `tries`. All ranks find the same.
  Result<double> measure_as_priced(const Invocation& invocation, const CallInfo::Price& price,
                                   double as_priced, int& tries, const PricePoint& point,
                                   const PricedWay& way) {
    for (;;) {
      const Result<double> mean = measure(invocation, price, point, way);
      if (!mean.ok()) return mean.status();
      const Result<double> now = probe();
      if (!now.ok()) return now.status();
      const bool moved = std::max(*now, as_priced) > kMoved * std::min(*now, as_priced);
      if (moved && --tries >= 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        continue;
      }
      return *mean;
    }
  }

  // Microseconds of a barrier.
  Result<double> probe() {
    const int64_t begin = steady_clock().now_ns();
    for (int i = 0; i < kProbe; ++i) WEFT_TRY(control().barrier());
    return mean_of_ranks(static_cast<double>(steady_clock().now_ns() - begin) * 1e-3 / kProbe);
  }

  Result<double> mean_of_ranks(double mine) {
    const auto all = gather_values(control(), mine);
    if (!all.ok()) return all.status();
    double sum = 0;
    for (const double each : *all) sum += each;
    return sum / static_cast<double>(all->size());
  }

  Result<double> measure(const Invocation& invocation, const CallInfo::Price& price,
                         const PricePoint& point, const PricedWay& way) {
    Result<Communicator*> communicator = bound_to(price, way.name);
    if (!communicator.ok()) return communicator.status();
    const int iterations =
        std::clamp(static_cast<int>(kBytesMoved / std::max<size_t>(1, point.bytes)),
                   kIterationsAtLeast, kIterationsAtMost);
    // The ways before have filled the caches with memory of their own.
    for (int i = 0; i < iterations / 2; ++i) WEFT_TRY(invocation.run(**communicator));
    WEFT_TRY(control().barrier());
    const int64_t begin = steady_clock().now_ns();
    for (int i = 0; i < iterations; ++i) WEFT_TRY(invocation.run(**communicator));
    return mean_of_ranks(static_cast<double>(steady_clock().now_ns() - begin) * 1e-3 / iterations);
  }

  // One communicator for each way, made when it is first wanted.
  Result<Communicator*> bound_to(const CallInfo::Price& price, const std::string& name) {
    std::unique_ptr<Communicator>& known = bound_[name];
    if (known) return known.get();
    BenchOptions options = options_;
    options.engine.algorithm = price.algorithm;
    options.engine.protocol = price.protocol;
    options.engine.lanes = price.lanes;
    options.engine.radix = price.radix;
    options.engine.chunk_bytes = price.segment_bytes;
    Result<Team> team = job_.make_team(options);
    if (!team.ok()) return team.status();
    known = std::move(team->measured);
    return known.get();
  }

  const BenchOptions& options_;
  const Job& job_;
  Team team_;
  std::map<std::string, std::unique_ptr<Communicator>> bound_;
  Buffer input_, output_;
  Network priced_;  // on rank 0
};

}  // namespace

int run_price_job(const BenchOptions& options, const Job& job) {
  const Status status = PriceJob(options, job).run();
  if (status.ok()) return kExitOk;
  complain(concat("rank ", job.rank, ": ", status.to_string()));
  return status.code() == Code::unsupported ? kExitUsage : kExitFailed;
}

}  // namespace weft::bench
