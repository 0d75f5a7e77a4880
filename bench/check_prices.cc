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
#include "bench/sweep.h"
#include "bench/text_columns.h"
#include "bench/watched.h"
#include "engine/measure.h"
#include "engine/tuner/tuning.h"

namespace weft::bench {
namespace {

constexpr int kAttempts = 5;     // at one size while the machine stays as it is
constexpr double kSteady = 1.3;  // what a link's figures may change by meanwhile

// One table.
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

double longest_rate(const Medium& m) { return m.rank_rates.back().rate; }

// Whether prices that hold for one hold for the other.
bool close(const Medium& a, const Medium& b) {
  return close(a.send_s + a.latency_s + a.recv_s, b.send_s + b.latency_s + b.recv_s) &&
         close(longest_rate(a), longest_rate(b));
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
    Result<MeasuredNode> node = measure_node({part.transport});
    if (!node.ok()) return node.status();
    return node->networks.front();
  }

  Result<PriceTally> run(const Part& part) {
    Result<Network> now = measure(part);
    if (!now.ok()) return now.status();
    say(title(part, *now));
    PriceTally tally;
    size_t last = 0;
    for (const size_t bytes : message_sizes(options_)) {
      Result<Row> row = run(part, bytes, *now);
      if (!row.ok()) return row.status();
      if (row->point.ways.empty() || row->point.bytes == last) continue;  // no element more
      last = row->point.bytes;
      tally.add(row->point);
      say(concat(row->steady ? " " : "~", point_text(row->point)));
    }
    say(concat("# ", tally_text(tally), "\n\n"));
    return tally;
  }

  struct Row {
    PricePoint point;
    bool steady = false;  // the machine was the same before and behind it
  };
  // `now` is what was measured last.
  Result<Row> run(const Part& part, size_t bytes, Network& now) {
    Row row;
    for (int i = 0; i < kAttempts && !row.steady; ++i) {
      WEFT_TRY(write_tuning({this_machine().host, now, now}, file_));
      row.point = {};
      WEFT_TRY(run_job(part, bytes, row.point));
      Result<Network> after = measure(part);
      if (!after.ok()) return after.status();
      row.steady = close(now.inside, after->inside);
      now = after.take();
    }
    return row;
  }

  Status run_job(const Part& part, size_t bytes, PricePoint& point) {
    ProcessSpec spec;
    spec.program = "/proc/self/exe";
    constexpr std::string_view kValued[] = {"--ranks", "--transport", "--tuning",  "-b",
                                            "-e",      "--minbytes",  "--maxbytes"};
    constexpr std::string_view kBare[] = {"--check-prices"};
    spec.arguments = without(options_.command_line, kValued, kBare);
    for (const std::string& word :
         {concat("--price-job=", name(part.operation)), concat("--ranks=", part.ranks),
          concat("--transport=", part.transport), concat("--tuning=", file_),
          concat("--minbytes=", bytes), concat("--maxbytes=", bytes)})
      spec.arguments.push_back(word);
    progress_.show(concat(name(part.operation), " ", part.transport, ", ", part.ranks, " ranks, ",
                          bytes, " bytes"));
    const auto on_line = [&](std::string_view line) -> Result<double> {
      Result<PricePoint> told = price_point_from_json(line);
      if (!told.ok()) return told.status();
      point = told.take();
      return options_.engine.timeout_s;
    };
    const Result<WatchedEnd> end = run_watched(spec, options_.engine.timeout_s, on_line);
    progress_.clear();
    if (!end.ok()) return end.status();
    if (end->well()) return {};
    return Status(Code::system,
                  concat("the job of ", part.ranks, " ranks ", end->reason, ": ", end->errors));
  }

  static std::string title(const Part& part, const Network& network) {
    const Medium& m = network.inside;
    return format(
        "# %s over %s, %d ranks on %d cores; a message %.2f + %.2f + %.2f us, %.1f GB/s\n",
        std::string(name(part.operation)).c_str(), part.transport.c_str(), part.ranks,
        network.node_cores, m.send_s * 1e6, m.latency_s * 1e6, m.recv_s * 1e6,
        longest_rate(m) * 1e-9);
  }

  static void say(const std::string& text) {
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
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
      "#      bytes  what the choice loses; the choice, then all others: us (measured / price)\n"
      "# !: a price is off by more; ~: the machine's links changed in every attempt\n\n",
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
