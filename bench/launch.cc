#include "bench/launch.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "base/text.h"
#include "base/thread.h"
#include "bench/cases.h"
#include "bench/machine.h"
#include "bench/options_check.h"
#include "bench/price_job.h"
#include "bootstrap/local_job.h"
#include "engine/device/cuda.h"

namespace weft::bench {
namespace {

// As one rank has them: which GPU, where data is in GPUs' memory.
BenchOptions options_of(const BenchOptions& options, Rank rank) {
  BenchOptions mine = options;
  if (options.gpu_memory)
    mine.engine.device =
        std::to_string(options.gpus[static_cast<size_t>(rank) % options.gpus.size()]);
  return mine;
}

// The job of a rank that meets the others in `rendezvous`. Refers to what it is given.
Job make_job(Rendezvous& rendezvous, bool speaks, const BenchOptions& options, std::string launcher,
             const Environment& environment, const MakeTeam& make_team) {
  return {rendezvous.rank(),
          rendezvous.size(),
          speaks,
          std::move(launcher),
          environment,
          [&](const BenchOptions& asked) { return make_team(rendezvous, asked); },
          [&] {
            return rendezvous.all_gather({}, Deadline::after(options.engine.timeout_s)).status();
          }};
}

int run_here(const BenchOptions& options, const Job& job) {
  return options.prices ? run_price_job(options, job) : run_job(options, job);
}

int join(const BenchOptions& options, const Membership& member, const Environment& environment,
         const MakeTeam& make_team) {
  Result<std::unique_ptr<Rendezvous>> rendezvous =
      make_rendezvous({member.rank, member.size, member.rendezvous, member.job}, environment);
  if (!rendezvous.ok()) {
    complain(concat("rank ", member.rank, ": ", rendezvous.status().to_string()));
    return exit_with(rendezvous.status());
  }
  const BenchOptions mine = options_of(options, member.rank);
  return run_here(mine, make_job(**rendezvous, member.local_rank == 0, mine, member.launcher,
                                 environment, make_team));
}

int run_threads(const BenchOptions& options, const Environment& environment,
                const MakeTeam& make_team) {
  const int ranks = ranks_to_start(options);
  std::vector<std::unique_ptr<Rendezvous>> rendezvous = make_in_process_rendezvous(ranks);
  std::vector<int> statuses(static_cast<size_t>(ranks), kExitOk);
  auto threads = start_threads(static_cast<size_t>(ranks), [&](size_t i) {
    const auto rank = static_cast<Rank>(i);
    BenchOptions mine = options_of(options, rank);
    const std::string host = host_of_local_rank(options, ranks, rank);
    if (!host.empty()) mine.engine.host = host;
    statuses[i] = run_here(
        mine, make_job(*rendezvous[i], rank == 0, mine, "threads", environment, make_team));
  });
  if (!threads.ok()) {
    complain(concat("--threads --ranks ", ranks, ": ", threads.status().message()));
    return kExitFailed;
  }
  for (std::thread& thread : *threads) thread.join();
  return *std::max_element(statuses.begin(), statuses.end());
}

// In blocks where neighbours talk through the kernel; memory that ranks share is as near in turn
// (docs/experiments.md, "Where ranks are placed").
CpuBinding binding_of(const BenchOptions& options) {
  if (!options.bind) return CpuBinding::none;
  return options.engine.transport == "tcp" ? CpuBinding::in_blocks : CpuBinding::in_turn;
}

int run_processes(const BenchOptions& options) {
  Result<Meeting> meeting = options.meet.empty() ? make_meeting(options.engine.interfaces)
                                                 : Meeting{{}, concat("tcp://", options.meet), {}};
  if (!meeting.ok()) {
    complain(meeting.status().message());
    return exit_with(meeting.status());
  }
  LocalJob job;
  job.ranks = ranks_to_start(options);
  job.first = options.meet.empty() ? 0 : options.first_here;
  job.count = options.meet.empty() ? job.ranks : options.ranks_here;
  job.name = "weft-bench";
  job.arguments = options.command_line;
  job.binding = binding_of(options);
  for (Rank rank = 0; rank < job.ranks && options.hosts > 1; ++rank)
    job.hosts.push_back(host_of_local_rank(options, job.ranks, rank));
  const Result<Outcome> outcome = run_local_job(job, meeting.take());
  if (!outcome.ok()) {
    complain(outcome.status().message());
    return kExitFailed;
  }
  // A usage that cannot be served is said already (Job::speaks).
  if (outcome->first_failed >= 0 && outcome->exit_status != kExitUsage)
    complain(concat("rank ", job.first + outcome->first_failed, " ", outcome->reason, "."));
  return outcome->exit_status;
}

// What only ranks that are started here take. Peers of --vs have options.bind off by themselves.
Status check_in_job_of_others(const BenchOptions& options, const Membership& member) {
  const bool no_bind =
      std::ranges::find(options.command_line, "--no-bind") != options.command_line.end();
  const std::pair<bool, const char*> refused[] = {
      {options.processes, "--processes"}, {no_bind, "--no-bind"}, {options.hosts > 1, "--hosts"}};
  for (const auto& [is, flag] : refused)
    if (is)
      return invalid_argument(concat(
          flag, " is for ranks that weft-bench starts, but this process is part of a job of ",
          member.size, " ranks (", member.launcher, "); leave ", flag, " out."));
  return {};
}

}  // namespace

Result<Start> how_to_start(const BenchOptions& options, const Membership& member) {
  const Start local = options.threads ? Start::threads : Start::processes;
  if (member.launcher == "none") return local;
  const bool ours = member.launcher == "weft";
  if (!ours && member.size > 1 && !options.meet.empty())
    return invalid_argument(
        concat("--here and --meet start ranks without a launcher, but this process is part of a "
               "job of ",
               member.size, " ranks (", member.launcher, "); leave them out."));
  if (member.size == 1 && !ours && (options.ranks > 1 || options.threads)) return local;
  if (options.ranks > 0 && options.ranks != member.size)
    return invalid_argument(concat("--ranks ", options.ranks, " contradicts the job of ",
                                   member.size, " ranks that this process is part of (",
                                   member.launcher, "); leave --ranks out."));
  if (options.threads)
    return invalid_argument(
        concat("--threads starts ranks of its own, but this process is part of a "
               "job of ",
               member.size, " ranks (", member.launcher, "); leave --threads out."));
  if (!ours) WEFT_TRY(check_in_job_of_others(options, member));
  return Start::join;
}

Status fit_to_start(const BenchOptions& options, const Environment& environment) {
  const int ranks = ranks_to_start(options);
  if (options.hosts > ranks)
    return invalid_argument(concat("--hosts ", options.hosts, " is more than there are ranks, ",
                                   ranks, "; give more --ranks."));
  const bool part = !options.meet.empty();
  const bool has_rank_0 = !options.threads && options.first_here == 0;
  WEFT_TRY(
      check_ranks({part ? options.ranks_here : ranks, has_rank_0 ? ranks : 0, options.threads}));
  // A price job is of one size, which may have no element.
  if (!options.prices) WEFT_TRY(check_cases(options, ranks));
  return check_results(options, environment);
}

std::string host_of_local_rank(const BenchOptions& options, int ranks, Rank rank) {
  if (options.hosts == 1) return {};
  return concat("host", static_cast<int64_t>(rank) * options.hosts / ranks);
}

Result<std::vector<int>> gpus_in_turn(const BenchOptions& options) {
  if (!options.gpus.empty()) return options.gpus;
  const Result<int> count = cuda_device_count();
  if (!count.ok()) return count.status().within("--device cuda");
  std::vector<int> all(static_cast<size_t>(*count));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

bool share_gpus(const std::vector<int>& gpus, int ranks) {
  std::set<int> used;
  for (size_t rank = 0; rank < static_cast<size_t>(ranks); ++rank)
    if (!used.insert(gpus[rank % gpus.size()]).second) return true;
  return false;
}

Result<Start> place_on_gpus(BenchOptions& options, Start start) {
  Result<std::vector<int>> gpus = gpus_in_turn(options);
  if (!gpus.ok() && start != Start::join) return gpus.status();
  // In a job the engine tells all ranks why this one has none.
  options.gpus = gpus.ok() ? gpus.take() : std::vector{0};
  const bool free = start == Start::processes && options.meet.empty() && !options.processes;
  return free && share_gpus(options.gpus, ranks_to_start(options)) ? Start::threads : start;
}

int launch(const BenchOptions& asked, const Environment& environment, const MakeTeam& make_team) {
  BenchOptions options = asked;
  const Result<Membership> member = membership_from(environment);
  Result<Start> start = member.ok() ? how_to_start(options, *member) : member.status();
  if (start.ok() && options.gpu_memory) start = place_on_gpus(options, *start);
  if (start.ok() && *start != Start::join)
    if (Status fits = fit_to_start(options, environment); !fits.ok()) start = std::move(fits);
  if (!start.ok()) {
    complain(start.status().message());
    return kExitUsage;
  }
  const bool has_rank_0 = *start == Start::join ? member->rank == 0 : options.first_here == 0;
  if (has_rank_0) begin_results(options, member->launcher, environment);
  const bool starts = *start == Start::processes || member->launcher == "weft";
  options.bind &= starts;  // of ranks that another one started, it binds none; nor threads
  switch (*start) {
    case Start::join: return join(options, *member, environment, make_team);
    case Start::threads: return run_threads(options, environment, make_team);
    case Start::processes: return run_processes(options);
  }
  return kExitFailed;
}

}  // namespace weft::bench
