#include "bench/check_prices.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "base/text.h"
#include "bench/job.h"
#include "bench/prices.h"
#include "bench/report.h"
#include "bench/sweep.h"
#include "bench/watched.h"

namespace weft::bench {
namespace {

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
  Result<PriceTally> run(const Part& part) {
    say(concat("# ", name(part.operation), " over ", part.transport, ", ", part.ranks, " ranks\n"));
    PriceTally tally;
    size_t last = 0;
    for (const size_t bytes : message_sizes(options_)) {
      Result<PricePoint> point = run(part, bytes);
      if (!point.ok()) return point.status();
      if (point->ways.empty() || point->bytes == last) continue;  // no element more
      last = point->bytes;
      tally.add(*point);
      say(point_text(*point));
    }
    say(concat("# ", tally_text(tally), "\n\n"));
    return tally;
  }

  // As often as --rounds says, until the machine stays as it is.
  Result<PricePoint> run(const Part& part, size_t bytes) {
    PricePoint point;
    for (int i = 0; i < options_.rounds && !point.steady; ++i) {
      point = {};
      WEFT_TRY(run_job(part, bytes, point));
      if (point.ways.empty()) break;
    }
    return point;
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
      "#     bytes  a message  what the choice loses; the choice, then all others: us (measured / "
      "price)\n"
      "# !: a price is off by more; ~: the machine changed in every attempt\n\n",
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
