#include "bench/check_prices.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "base/text.h"
#include "bench/cases.h"
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

// And a row of it.
struct Size {
  size_t bytes = 0;  // asked for
  std::vector<PricedRound> rounds;
};

constexpr int kTries = 3;

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
    std::vector<Size> sizes;
    for (const size_t bytes : message_sizes(options_)) sizes.push_back({bytes, {}});
    WEFT_TRY(run_rounds(part, sizes));
    PriceTally tally;
    size_t last = 0;
    for (Size& size : sizes) {
      if (size.rounds.empty() || size.rounds.front().bytes == last) continue;  // no element more
      last = size.rounds.front().bytes;
      const PricePoint point = point_of(std::move(size.rounds));
      tally.add(point);
      say(point_text(point));
    }
    say(concat("# ", tally_text(tally), "\n\n"));
    return tally;
  }

  // Rounds of all sizes, so that those of one are minutes apart: as many as --rounds says in which
  // the machine was the same before and behind, but no more than kTries times as many in all.
  Status run_rounds(const Part& part, std::vector<Size>& sizes) {
    for (int tried = 0; tried < kTries * options_.rounds; ++tried)
      for (Size& size : sizes) {
        const auto steady = std::count_if(size.rounds.begin(), size.rounds.end(),
                                          [](const PricedRound& round) { return round.steady; });
        const bool empty = tried > 0 && size.rounds.empty();  // too small for an element each
        if (empty || steady >= options_.rounds) continue;
        progress_.show(concat(name(part.operation), " ", part.transport, ", ", part.ranks,
                              " ranks, round ", tried + 1, ", ", size.bytes, " bytes"));
        const Status ran = run_job(part, size);
        progress_.clear();
        WEFT_TRY(ran);
      }
    return {};
  }

  Status run_job(const Part& part, Size& size) {
    ProcessSpec spec;
    spec.program = "/proc/self/exe";
    constexpr std::string_view kValued[] = {"--ranks", "--transport", "--tuning",  "-b",
                                            "-e",      "--minbytes",  "--maxbytes"};
    constexpr std::string_view kBare[] = {"--check-prices"};
    spec.arguments =
        with({concat("--price-job=", name(part.operation)), concat("--ranks=", part.ranks),
              concat("--transport=", part.transport), concat("--tuning=", file_),
              concat("--minbytes=", size.bytes), concat("--maxbytes=", size.bytes)},
             without(options_.command_line, kValued, kBare));
    const auto on_line = [&](std::string_view line) -> Result<double> {
      Result<PricedRound> told = priced_round_from_json(line);
      if (!told.ok()) return told.status();
      size.rounds.push_back(told.take());
      return options_.engine.timeout_s;
    };
    const Result<WatchedEnd> end = run_watched(spec, options_.engine.timeout_s, on_line);
    if (!end.ok()) return end.status();
    if (end->well()) return {};
    return Status(end->exit_status == kExitUsage ? Code::invalid_argument : Code::system,
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
  for (const Part& part : parts_of(options))
    if (const Status valid = check_cases(options, part.ranks); !valid.ok()) {
      complain(valid.message());
      return kExitUsage;
    }
  std::error_code error;
  std::string folder =
      (std::filesystem::temp_directory_path(error) / "weft-prices-XXXXXX").string();
  if (!::mkdtemp(folder.data())) {  // a name that nobody else can have taken before
    complain(system_error(concat("mkdtemp ", folder)).message());
    return kExitFailed;
  }
  std::fputs(
      "#     bytes  a message  what the choice loses; the choice, then all others: us (measured / "
      "price)\n"
      "# !: a price is off by more; ~: the machine changed in every attempt\n\n",
      stdout);
  const Result<PriceTally> tally = Check(options, folder + "/prices.json").run();
  std::filesystem::remove_all(folder, error);
  if (!tally.ok()) {
    complain(tally.status().message());
    return exit_with(tally.status());
  }
  std::printf("# in all: %s\n", tally_text(*tally).c_str());
  return kExitOk;
}

}  // namespace weft::bench
