#include "bench/versus.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <utility>

#include "base/files.h"
#include "base/text.h"
#include "bench/comparison_report.h"
#include "bench/floor.h"
#include "bench/job.h"
#include "bench/launch.h"
#include "bench/plot.h"
#include "bench/report_json.h"
#include "bench/tune.h"
#include "bench/watched.h"
#include "bootstrap/cpus.h"
#include "plot/gnuplot.h"

namespace weft::bench {
namespace {

struct KnownPeer {
  std::string_view name;
  std::string_view packages;  // of Debian and Ubuntu
};
constexpr std::array<KnownPeer, 3> kKnownPeers{{
    {"openmpi", "openmpi-bin libopenmpi-dev"},
    {"mpich", "mpich libmpich-dev"},
    {"gloo", "libgloo-dev"},
}};

// Variables that change what a library does; all of them go into the JSON.
constexpr std::string_view kSettings[] = {"WEFT_", "OMPI_", "PMIX_", "PRTE_", "MPICH_",
                                          "MPIR_", "UCX_",  "FI_",   "HYDRA_"};

constexpr int kTries = 3;    // times --rounds, at most, where the cores move
constexpr double kEndS = 5;  // that a library may take to end after its last result

bool is_program(const std::string& path) { return ::access(path.c_str(), X_OK) == 0; }

// NAME=PROGRAM.
Result<Library> find_program(const std::string& word, size_t equals) {
  Library library;
  library.name = word.substr(0, equals);
  library.program = word.substr(equals + 1);
  if (library.name.empty())
    return invalid_argument(concat("--vs: \"", word, "\": NAME=PROGRAM is wanted."));
  if (!is_program(library.program))
    return invalid_argument(concat("--vs: \"", word, "\": there is no program ", library.program,
                                   " that could be started; give its path."));
  return library;
}

Result<Library> find_library(const std::string& word, const std::string& folder) {
  if (const size_t equals = word.find('='); equals != std::string::npos)
    return find_program(word, equals);
  const auto known = std::find_if(kKnownPeers.begin(), kKnownPeers.end(),
                                  [&](const KnownPeer& peer) { return peer.name == word; });
  if (known == kKnownPeers.end())
    return invalid_argument(
        concat("--vs: \"", word, "\" is not one of openmpi, mpich, gloo, all, NAME=PROGRAM."));
  Library library;
  library.name = word;
  library.program = concat(folder, "/weft-peer-", word);
  if (!is_program(library.program)) {
    library.note = concat("skipped: ", library.program, " is not there. It is built with weft, as ",
                          "by make bench, where its library is: on Debian or Ubuntu, apt-get ",
                          "install ", known->packages, ".");
    library.program.clear();
  }
  return library;
}

std::vector<std::string> arguments_for(const BenchOptions& options, bool weft) {
  std::vector<std::string> arguments = arguments_of_one(options.command_line);
  // Peers start processes, and bind them, as they do.
  constexpr std::string_view kWefts[] = {"--no-bind", "--processes"};
  if (!weft) arguments = without(arguments, {}, kWefts);
  std::vector<std::string> more{"--one-form", "--json-lines"};
  if (options.ranks == 0)
    more.insert(more.end(), {"--ranks", std::to_string(ranks_to_start(options))});
  if (!weft) more.emplace_back("--no-floor");
  return with(std::move(more), arguments);
}

// The conductor proper.
class Rounds {
 public:
  Rounds(const BenchOptions& options, Comparison& comparison)
      : options_(options), comparison_(comparison), progress_(Progress::wanted()) {}

  // The exit status.
  int run() {
    const size_t count = comparison_.libraries().size();
    for (round_ = 0; !over_ && wanted(); ++round_)
      for (size_t turn = 0; turn < count && !over_; ++turn)
        run_one((turn + static_cast<size_t>(round_)) % count);  // nobody always comes first
    return status_;
  }
  bool went_through() const { return !over_; }

 private:
  // More rounds than asked for where the cores move: until so many runs of each library are alike.
  bool wanted() const {
    if (round_ < options_.rounds) return true;
    return comparison_.alike_runs() < static_cast<size_t>(options_.rounds) &&
           round_ < kTries * options_.rounds;
  }

  void run_one(size_t index) {
    Library& library = comparison_.libraries()[index];
    if (!library.note.empty()) return;
    ProcessSpec spec;
    spec.program = library.program;
    spec.arguments = library.arguments;
    rows_ = 0;
    finished_ = false;
    show(library);
    hops_.before_us = hop_us();
    const auto on_line = [&](std::string_view line) { return take_line(index, line); };
    const Result<WatchedEnd> end = run_watched(spec, options_.engine.timeout_s, on_line);
    progress_.clear();
    if (!end.ok()) return give_up(index, std::string(end.status().message()), kExitFailed);
    judge(index, *end);
  }

  Result<double> take_line(size_t index, std::string_view line) {
    const Result<Said> said = comparison_.add(index, line);
    if (!said.ok()) return said.status();
    finished_ |= *said == Said::totals;
    rows_ += *said == Said::row;
    show(comparison_.libraries()[index]);
    if (*said == Said::remark) return 0;
    return finished_ ? kEndS : options_.engine.timeout_s;
  }

  void judge(size_t index, const WatchedEnd& end) {
    if (end.signal != 0) return interrupted_by(end.signal);
    // What a peer means by its status is its own affair.
    const bool own = index == 0 && end.exit_status != kExitOk;
    const int exit_status = own ? end.exit_status : kExitFailed;
    if (comparison_.has_wrong(index)) {
      std::fputs(end.errors.c_str(), stderr);
      give_up(index, "gave wrong values", kExitWrong);
    } else if (finished_ && end.overdue) {  // nothing is missing
      complain(concat(comparison_.libraries()[index].name, ": killed in round ", round_ + 1,
                      ": it did not end after its last result."));
    } else if (!end.well()) {
      std::fputs(end.errors.c_str(), stderr);
      give_up(index, end.reason, exit_status);
    } else if (!finished_) {
      give_up(index, "ended without totals", exit_status);
    } else if (!comparison_.has_figures(index)) {
      comparison_.libraries()[index].note = "skipped: it has none of these calls.";
      over_ |= index == 0 || !anybody_left();
    }
    hops_.after_us = hop_us();
    if (finished_) comparison_.end_run(index, hops_);
  }

  // Between CPUs that libraries get from this process, who is not bound; one is as far from itself
  // as ever.
  double hop_us() const {
    return options_.floor && cpus_.size() > 1 ? measure_flag_hop(cpus_) * 1e6 : 0;
  }

  bool anybody_left() const {
    const std::vector<Library>& libraries = comparison_.libraries();
    return std::any_of(libraries.begin() + 1, libraries.end(),
                       [](const Library& peer) { return peer.note.empty(); });
  }

  // Of the failures the first one tells the exit status; without weft there is nothing to compare.
  void give_up(size_t index, std::string_view why, int exit_status) {
    Library& library = comparison_.libraries()[index];
    library.note = concat("left out from round ", round_ + 1, " on: it ", why, ".");
    complain(concat(library.name, ": ", library.note));
    over_ |= index == 0 || !anybody_left();
    if (index == 0 || status_ == kExitOk) status_ = exit_status;
  }

  void interrupted_by(int signal) {
    complain(concat("stopped by signal ", signal, " in round ", round_ + 1, "."));
    over_ = true;
    status_ = 128 + signal;
  }

  void show(const Library& library) {
    const std::string round = round_ < options_.rounds ? concat("/", options_.rounds)
                                                       : concat(", ", comparison_.alike_runs(), "/",
                                                                options_.rounds, " alike");
    progress_.show(concat("[round ", round_ + 1, round, "] ", library.name, ", ", rows_, " rows"));
  }

  const BenchOptions& options_;
  const std::vector<int> cpus_ = cpus_core_by_core();
  Comparison& comparison_;
  Progress progress_;
  Hops hops_;  // of the run that is under way
  int round_ = 0;
  int rows_ = 0;           // of the library that runs
  bool finished_ = false;  // so it says
  bool over_ = false;
  int status_ = kExitOk;
};

RunInfo describe_run(const BenchOptions& options, const Environment& environment) {
  RunInfo info;
  info.version = WEFT_VERSION;
  info.library = "weft " WEFT_VERSION;
  info.date = utc_now();
  info.launcher = "none";
  info.machine = this_machine();
  info.options = options;
  for (const auto& [key, value] : environment.values())
    if (key != "WEFT_SECRET" &&
        std::any_of(std::begin(kSettings), std::end(kSettings),
                    [&name = key](std::string_view prefix) { return name.starts_with(prefix); }))
      info.environment[key] = value;
  return info;
}

Status validate(const BenchOptions& options, const Environment& environment) {
  const Result<Membership> member = membership_from(environment);
  if (!member.ok()) return member.status();
  if (member->size > 1)
    return invalid_argument(
        concat("--vs starts every library's ranks, but this process is part of a job of ",
               member->size, " ranks (", member->launcher, "); call it alone, with --ranks."));
  return fit_to_start(options, environment);
}

// An error where there is no peer at all.
Status complain_about_missing(const std::vector<Library>& libraries) {
  for (const Library& library : libraries)
    if (!library.note.empty()) complain(concat(library.name, ": ", library.note));
  if (std::any_of(libraries.begin() + 1, libraries.end(),
                  [](const Library& peer) { return peer.note.empty(); }))
    return {};
  return invalid_argument("--vs: there is nothing to compare with.");
}

// An error where all went well and yet no figure of a peer is beside one of weft's.
Status complain_about_nothing(const Comparison& comparison) {
  const std::vector<Line>& lines = comparison.lines();
  if (std::any_of(lines.begin(), lines.end(),
                  [&](const Line& line) { return comparison.best_peer(line); }))
    return {};
  if (!comparison.has_figures(0))
    return invalid_argument(
        "--vs: nothing was compared: weft has no figure of a call with elements; give "
        "-b/--minbytes and -e/--maxbytes above 0, or another --algorithm.");
  return invalid_argument(
      "--vs: nothing was compared: no library that is here has these calls; name another "
      "COLLECTIVE, -d/--datatype or -o/--op, or more libraries.");
}

// Prints it, and writes the files that are asked for.
Status report(const Comparison& comparison, const RunInfo& info, bool complete,
              const Environment& environment) {
  const BenchOptions& options = info.options;
  std::fputs(comparison_text(comparison, info).c_str(), stdout);
  std::fflush(stdout);
  if (!options.output_file.empty())
    WEFT_TRY(write_json(options.output_file, to_json(comparison, info, complete)));
  if (options.plot_file.empty()) return {};
  return draw(chart_of(comparison, info), options.plot_file, environment);
}

}  // namespace

std::vector<std::string> arguments_of_one(std::span<const std::string> command_line) {
  constexpr std::string_view kValued[] = {"--vs", "--rounds", "--plot", "--output_file", "-J"};
  constexpr std::string_view kBare[] = {"--json-lines"};
  return without(command_line, kValued, kBare);
}

Result<std::vector<Library>> find_libraries(const BenchOptions& options,
                                            const std::string& program_folder) {
  std::vector<std::string> words;
  for (const std::string& word : options.peers) {
    if (word != "all")
      words.push_back(word);
    else
      for (const KnownPeer& peer : kKnownPeers) words.emplace_back(peer.name);
  }
  std::vector<Library> libraries(1);
  libraries[0].name = "weft";
  libraries[0].program = "/proc/self/exe";
  libraries[0].arguments = arguments_for(options, true);
  for (const std::string& word : words) {
    Result<Library> found = find_library(word, program_folder);
    if (!found.ok()) return found.status();
    const bool twice = std::any_of(libraries.begin(), libraries.end(), [&](const Library& library) {
      return library.name == found->name;
    });
    if (twice) return invalid_argument(concat("--vs: \"", found->name, "\" is there twice."));
    found->arguments = arguments_for(options, false);
    libraries.push_back(found.take());
  }
  return libraries;
}

int compare(const BenchOptions& options, const Environment& environment) {
  std::error_code ignored;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", ignored);
  Result<std::vector<Library>> libraries = find_libraries(options, self.parent_path().string());
  Status status = validate(options, environment);
  if (status.ok()) status = libraries.status();
  if (status.ok()) status = complain_about_missing(*libraries);
  if (!status.ok()) {
    complain(status.message());
    return kExitUsage;
  }
  tune_once(options, environment);  // else weft's first run does, and gives no result meanwhile
  const RunInfo info = describe_run(options, environment);
  Comparison comparison(libraries.take(), ranks_to_start(options));
  // What lies there is of an earlier comparison, whatever becomes of this one.
  if (!options.output_file.empty() && replaceable(options.output_file))
    (void)write_json(options.output_file, to_json(comparison, info, /*complete=*/false));
  const HeldSignals held;  // what comes between two runs ends the next one
  Rounds rounds(options, comparison);
  const int exit_status = rounds.run();
  if (!comparison.lines().empty())
    status = report(comparison, info, rounds.went_through(), environment);
  if (!status.ok()) {
    complain(status.message());
    return exit_status == kExitOk ? kExitFailed : exit_status;
  }
  if (exit_status != kExitOk) return exit_status;
  status = complain_about_nothing(comparison);
  if (status.ok()) return kExitOk;
  complain(status.message());
  return kExitUsage;
}

}  // namespace weft::bench
