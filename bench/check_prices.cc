#include "bench/check_prices.h"

#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <filesystem>

#include "base/text.h"
#include "bench/job.h"
#include "bench/machine.h"
#include "bench/prices.h"
#include "bench/report.h"
#include "bench/text_columns.h"
#include "bench/watched.h"
#include "engine/measure.h"
#include "engine/tuner/tuning.h"

namespace weft::bench {
namespace {

constexpr int kAttempts = 3;     // at measuring while the machine stays as it is
constexpr double kSteady = 1.3;  // what a link's figures may change by meanwhile

// One job of the check.
struct Part {
  Operation operation;
  std::string transport;
  int ranks = 2;
};

std::vector<Part> parts_of(const BenchOptions& options) {
  const std::string& asked = options.engine.transport;
  std::vector<std::string> transports{asked};
  if (asked == "auto" || asked == "shm+tcp") transports = {"shm", "tcp"};
  std::vector<int> ranks{options.ranks};
  if (options.ranks == 0) ranks = {2, 4};
  std::vector<Part> parts;
  for (const int n : ranks)
    for (const std::string& transport : transports)
      for (const Operation operation : options.operations)
        parts.push_back({operation, transport, n});
  return parts;
}

bool close(double a, double b) { return std::max(a, b) <= kSteady * std::min(a, b); }

// Whether prices that hold for one hold for the other.
bool close(const Medium& a, const Medium& b) {
  return close(a.send_s + a.latency_s + a.recv_s, b.send_s + b.latency_s + b.recv_s) &&
         close(a.rank_rate, b.rank_rate);
}

class Check {
 public:
  Check(const BenchOptions& options, std::string tuning_file)
      : options_(options), file_(std::move(tuning_file)), progress_(Progress::wanted()) {}

  Result<PriceTally> run() {
    PriceTally all;
    for (const Part& part : parts_of(options_)) {
      Result<PriceTally> tally = run(part);
      if (!tally.ok()) return tally;
      all.add(*tally);
    }
    return all;
  }

 private:
  Result<Network> measure(const Part& part) {
    Result<std::vector<Network>> networks = measure_node({part.transport});
    if (!networks.ok()) return networks.status();
    return networks->front();
  }

  Result<PriceTally> run(const Part& part) {
    std::vector<PricePoint> points;
    bool steady = false;
    Result<Network> before = measure(part);
    for (int i = 0; i < kAttempts && !steady; ++i) {
      if (!before.ok()) return before.status();
      points.clear();
      WEFT_TRY(write_tuning({this_machine().host, *before, *before}, file_));
      WEFT_TRY(run_job(part, points));
      Result<Network> after = measure(part);
      if (!after.ok()) return after.status();
      steady = close(before->inside, after->inside);
      if (i + 1 < kAttempts && !steady) before = std::move(after);
    }
    return report(part, *before, points, steady);
  }

  Status run_job(const Part& part, std::vector<PricePoint>& points) {
    ProcessSpec spec;
    spec.program = "/proc/self/exe";
    constexpr std::string_view kValued[] = {"--ranks", "--transport", "--tuning"};
    constexpr std::string_view kBare[] = {"--check-prices"};
    spec.arguments = without(options_.command_line, kValued, kBare);
    for (const std::string& word :
         {concat("--price-job=", name(part.operation)), concat("--ranks=", part.ranks),
          concat("--transport=", part.transport), concat("--tuning=", file_)})
      spec.arguments.push_back(word);
    const auto on_line = [&](std::string_view line) -> Result<double> {
      Result<PricePoint> point = price_point_from_json(line);
      if (!point.ok()) return point.status();
      points.push_back(point.take());
      progress_.show(concat(name(part.operation), " ", part.transport, ", ", part.ranks, " ranks, ",
                            points.back().bytes, " bytes"));
      return options_.engine.timeout_s;
    };
    const Result<WatchedEnd> end = run_watched(spec, options_.engine.timeout_s, on_line);
    progress_.clear();
    if (!end.ok()) return end.status();
    if (end->well()) return {};
    return Status(Code::system,
                  concat("the job of ", part.ranks, " ranks ", end->reason, ": ", end->errors));
  }

  static PriceTally report(const Part& part, const Network& network,
                           const std::vector<PricePoint>& points, bool steady) {
    const Medium& m = network.inside;
    std::string text = format(
        "# %s over %s, %d ranks on %d cores; a message %.2f + %.2f + %.2f us, %.1f GB/s\n",
        std::string(name(part.operation)).c_str(), part.transport.c_str(), part.ranks,
        network.node_cores, m.send_s * 1e6, m.latency_s * 1e6, m.recv_s * 1e6, m.rank_rate * 1e-9);
    if (!steady) text += "# (the machine's links changed meanwhile)\n";
    PriceTally tally;
    for (const PricePoint& point : points) {
      tally.add(point);
      text += point_text(point);
    }
    text += concat("# ", tally_text(tally), "\n\n");
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
    return tally;
  }

  const BenchOptions& options_;
  const std::string file_;
  Progress progress_;
};

}  // namespace

int check_prices(const BenchOptions& options, const Environment& environment) {
  const Result<Membership> member = membership_from(environment);
  if (member.ok() && member->launcher != "none") {
    complain("--check-prices starts its own ranks; call it without a launcher.");
    return kExitUsage;
  }
  std::error_code error;
  const std::filesystem::path file =
      std::filesystem::temp_directory_path(error) / concat("weft-prices-", ::getpid(), ".json");
  std::fputs(
      "#     bytes  what the choice loses; the choice, then all others: us (measured / price)\n\n",
      stdout);
  const Result<PriceTally> tally = Check(options, file.string()).run();
  std::filesystem::remove(file, error);
  if (!tally.ok()) {
    complain(tally.status().message());
    return kExitFailed;
  }
  std::printf("# in all: %s\n", tally_text(*tally).c_str());
  return kExitOk;
}

}  // namespace weft::bench
