#include "bench/job.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/clock.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/json_object.h"
#include "base/text.h"
#include "bench/agree.h"
#include "bench/gpu_floor.h"
#include "bench/options_check.h"
#include "bench/plot.h"
#include "bench/report_json.h"
#include "bench/run.h"
#include "bootstrap/topology.h"
#include "plot/gnuplot.h"

namespace weft::bench {
namespace {

constexpr int64_t kWarmUpNs = 20'000'000;
constexpr double kSavedEvery_s = 1;
constexpr double kSavingMost = 0.1;  // of the time: rows become many where cycles have no end

void print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

constexpr size_t kRoom = 64;
using Word = std::array<char, kRoom>;
struct Card {  // fixed size, to be gathered
  Word host{};
  uint64_t machine = 0;
  int pid = 0;
  bool has_gpu = false;
  Word gpu_name{}, gpu_uuid{};
  int gpu_ordinal = 0;
};

struct Met {
  std::vector<RankInfo> ranks;
  bool one_machine = true;
};

// `gpu` of this rank: null where data is in the host's memory.
Result<Met> meet(Communicator& control, const Machine& machine, const Gpu* gpu) {
  Card mine;
  mine.host = word_of<kRoom>(machine.host);
  const std::string identity = machine_identity();
  mine.machine = hash_of(identity.empty() ? machine.host : identity);
  mine.pid = ::getpid();
  mine.has_gpu = gpu != nullptr;
  if (gpu) {
    mine.gpu_name = word_of<kRoom>(gpu->identity().name);
    mine.gpu_uuid = word_of<kRoom>(gpu->identity().uuid);
    mine.gpu_ordinal = gpu->identity().ordinal;
  }
  Result<std::vector<Card>> cards = gather_values(control, mine);
  if (!cards.ok()) return cards.status();
  Met met;
  for (const Card& card : *cards) {
    met.one_machine &= card.machine == mine.machine;
    RankInfo& rank = met.ranks.emplace_back(RankInfo{card.host.data(), card.pid});
    if (card.has_gpu) rank.gpu = {card.gpu_name.data(), card.gpu_uuid.data(), card.gpu_ordinal};
  }
  return met;
}

// The rows of a run, printed as they come.
class Reporter {
 public:
  Reporter(const BenchOptions& options, bool reports) : options_(options), reports_(reports) {}

  void begin(const RunInfo& run) {
    if (!reports_) return;
    if (options_.json_lines) return print_line("run", to_json(run));
    print(header_text(run));
  }
  void add(const Row& row) {
    const bool first = rows_.empty() || rows_.back().what.operation != row.what.operation;
    rows_.push_back(row);
    if (options_.json_lines) return print_line("row", to_json(row));
    if (first) print(titles_text(row.what.operation, options_));
    print(row_text(row));
    if (options_.explain) print(explanation_text(row));
  }
  void end(const Totals& totals) {
    if (!reports_) return;
    if (options_.json_lines) return print_line("totals", to_json(totals));
    print(footer_text(totals, options_.checks > 0));
  }
  const std::vector<Row>& rows() const { return rows_; }

 private:
  static void print_line(const char* key, nlohmann::ordered_json value) {
    print(json_text(nlohmann::ordered_json{{key, std::move(value)}}) + "\n");
  }

  const BenchOptions& options_;
  bool reports_;
  std::vector<Row> rows_;
};

// Rank 0 measures what the machine could do, while the others wait, asleep; or each GPU's first
// rank what that can do. Nothing where there is no floor. Collective.
Result<std::optional<Calibration>> calibrate_for(const BenchOptions& options, const Job& job,
                                                 Communicator& control,
                                                 const std::shared_ptr<Gpu>& gpu, const Met& met) {
  std::optional<Calibration> calibration;
  if (gpu) {
    Result<Calibration> measured = calibrate_gpus(gpu, control, met.ranks);
    if (!measured.ok()) return measured.status();
    return std::optional(measured.take());
  }
  if (!job.meet_asleep || !met.one_machine) return calibration;
  const bool tcp = options.engine.transport == "tcp" || options.hosts > 1;
  if (job.rank == 0)
    calibration = calibrate(static_cast<int>(met.ranks.size()), options.max_bytes, tcp);
  WEFT_TRY(job.meet_asleep());
  return calibration;
}

// Cores that waited asleep are slow at first, which would be the first figure's loss. Rank 0's
// clock says for everybody when it is enough.
Status warm_up(Communicator& control) {
  const int64_t begin = steady_clock().now_ns();
  for (;;) {
    const auto elapsed = gather_values(control, steady_clock().now_ns() - begin);
    if (!elapsed.ok()) return elapsed.status();
    if (elapsed->front() >= kWarmUpNs) return {};
  }
}

Status run_cycles(const BenchOptions& options, Runner& runner, const Runner::Sink& sink, Rank me) {
  Progress progress(me == 0 && Progress::wanted());
  for (int cycle = 0; options.cycles == 0 || cycle < options.cycles; ++cycle)
    WEFT_TRY(runner.run(sink, progress));
  return {};
}

// What there is of -J while more is to come: then whoever ends the job, or loses a rank of it, has
// all but the last second. A pipe would get it more than once.
class SavedRows {
 public:
  explicit SavedRows(const std::string& file)
      : file_(file), wanted_(!file.empty() && replaceable(file)) {}
  bool due() const { return wanted_ && next_.expired(); }
  // What cannot be written now is told at the end, when it is tried again.
  void save(const RunInfo& run, const std::vector<Row>& rows, const Totals& totals) {
    if (!wanted_ || rows.empty()) return;
    const int64_t begin = steady_clock().now_ns();
    (void)write_json(file_, to_json(run, rows, totals, /*complete=*/false));
    const double took_s = static_cast<double>(steady_clock().now_ns() - begin) * 1e-9;
    next_ = Deadline::after(std::max(kSavedEvery_s, took_s / kSavingMost));
  }

 private:
  const std::string& file_;
  const bool wanted_;
  Deadline next_ = Deadline::after(kSavedEvery_s);
};

Status write_trace(const Tracer& tracer, const RunInfo& run) {
  if (tracer.lost_some())
    complain("--trace: some calls have more steps than are kept; of these it has the last ones.");
  return tracer.write(run.options.trace_file,
                      concat("weft-bench, ", run.ranks.size(), " ranks, ", run.date));
}

Status write_files(const RunInfo& run, const Environment& environment, const std::vector<Row>& rows,
                   const Totals& totals, const Tracer& tracer) {
  const BenchOptions& options = run.options;
  if (!options.output_file.empty())
    WEFT_TRY(write_json(options.output_file, to_json(run, rows, totals, /*complete=*/true)));
  if (!options.trace_file.empty()) WEFT_TRY(write_trace(tracer, run));
  if (options.plot_file.empty()) return {};
  return draw(chart_of(rows, run), options.plot_file, environment);
}

RunInfo describe_run(const BenchOptions& options, const std::string& launcher,
                     const Environment& environment) {
  RunInfo info;
  info.version = WEFT_VERSION;
  info.date = utc_now();
  info.launcher = launcher;
  info.machine = this_machine();
  info.options = options;
  for (const auto& [key, value] : environment.values())
    if (key.starts_with("WEFT_") && key != "WEFT_SECRET") info.environment[key] = value;
  return info;
}

// `shared`: whether all ranks end with the same error, where there is one.
Result<int> run_all(const BenchOptions& options, const Job& job, bool& shared) {
  RunInfo info = describe_run(options, job.launcher, job.environment);
  const bool reports = job.rank == 0;
  if (reports) WEFT_TRY(check_results(options, job.environment));
  Result<Team> team = job.make_team(options);
  shared = !team.ok();
  if (!team.ok()) return team.status();
  info.library = team->library;
  const Result<Wanted> wanted = agree(team->control(), options);
  shared = !wanted.ok() && wanted.status().peer() < 0;
  if (!wanted.ok()) return wanted.status();
  std::shared_ptr<Gpu> gpu;
  if (options.gpu_memory) {
    Result<std::shared_ptr<Gpu>> device = team->measured->device();
    if (!device.ok()) return device.status();
    gpu = device.take();
  }
  const Result<Met> met = meet(team->control(), info.machine, gpu.get());
  if (!met.ok()) return met.status();
  info.ranks = met->ranks;
  if (wanted->floor) {
    auto calibration = calibrate_for(options, job, team->control(), gpu, *met);
    if (!calibration.ok()) return calibration.status();
    info.calibration = calibration.take();
  }

  Reporter reporter(options, reports);
  reporter.begin(info);
  WEFT_TRY(warm_up(team->control()));
  const auto place = make_place(*team->measured, team->control(), options);
  if (!place.ok()) return place.status();
  Tracer tracer(*team->measured, team->control());
  Runner runner({*team->measured, team->control(), options, **place, info.calibration,
                 wanted->trace ? &tracer : nullptr, wanted->samples});
  const Totals& totals = runner.totals();
  SavedRows saved(options.output_file);
  const auto add = [&](const Row& row) {
    reporter.add(row);
    if (saved.due()) saved.save(info, reporter.rows(), totals);
  };
  if (Status ran = run_cycles(options, runner, add, job.rank); !ran.ok()) {
    shared = ran.peer() < 0;  // of the call, not of one rank's memory
    saved.save(info, reporter.rows(), totals);
    return ran;
  }
  reporter.end(totals);
  if (reports) WEFT_TRY(write_files(info, job.environment, reporter.rows(), totals, tracer));
  WEFT_TRY(team->control().barrier());  // nobody leaves while another one still works
  return totals.faults == 0 && !runner.saw_faults() ? kExitOk : kExitWrong;
}

}  // namespace

Result<Team> make_weft_team(Rendezvous& rendezvous, const BenchOptions& options) {
  Team team;
  team.library = "weft " WEFT_VERSION;
  Result<std::unique_ptr<Communicator>> made = Communicator::create(rendezvous, options.engine);
  if (!made.ok()) return made.status();
  team.measured = made.take();
  if (options.engine.algorithm == "auto" && options.engine.protocol == "auto") return team;
  Options free = options.engine;
  free.algorithm = free.protocol = "auto";
  if (options.gpu_memory) free.device = "none";
  Result<std::unique_ptr<Communicator>> control = Communicator::create(rendezvous, free);
  if (!control.ok()) return control.status();
  team.own_control = control.take();
  return team;
}

int run_job(const BenchOptions& options, const Job& job) {
  if (const Status valid = check_cases(options, job.size); !valid.ok()) {
    if (job.speaks) complain(valid.message());
    return kExitUsage;
  }
  bool shared = false;
  const Result<int> status = run_all(options, job, shared);
  if (status.ok()) return *status;
  const std::string why = status.status().to_string();
  const int ends = exit_with(status.status());
  if (ends != kExitUsage || !shared)
    complain(concat("rank ", job.rank, ": ", why));
  else if (job.speaks)
    complain(why);
  return ends;
}

void begin_results(const BenchOptions& options, const std::string& launcher,
                   const Environment& environment) {
  if (options.output_file.empty() || !replaceable(options.output_file)) return;
  (void)write_json(options.output_file, to_json(describe_run(options, launcher, environment), {},
                                                Totals(), /*complete=*/false));
}

int exit_with(const Status& failure) {
  const Code code = failure.code();
  const bool usage = code == Code::invalid_argument || code == Code::unsupported;
  return usage ? kExitUsage : kExitFailed;
}

void complain(std::string_view message) {
  std::fputs(concat("weft-bench: ", message, "\n").c_str(), stderr);
}

}  // namespace weft::bench
