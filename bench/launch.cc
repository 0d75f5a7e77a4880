#include "bench/launch.h"

#include <algorithm>
#include <thread>

#include "base/text.h"
#include "bench/cpus.h"
#include "bench/processes.h"

namespace weft::bench {
namespace {

constexpr double kGraceS = 3;  // from the first rank that fails until the others are killed

// The job of a rank that meets the others in `rendezvous`. Refers to what it is given.
Job make_job(Rendezvous& rendezvous, const BenchOptions& options, std::string launcher,
             int local_size, const Environment& environment, const MakeTeam& make_team) {
  return {rendezvous.rank(),
          rendezvous.size(),
          std::move(launcher),
          local_size,
          environment,
          [&] { return make_team(rendezvous, options); },
          [&] {
            return rendezvous.all_gather({}, Deadline::after(options.engine.timeout_s)).status();
          }};
}

int join(const BenchOptions& options, const Membership& member, const Environment& environment,
         const MakeTeam& make_team) {
  Result<std::unique_ptr<Rendezvous>> rendezvous =
      make_rendezvous({member.rank, member.size, member.rendezvous, member.job}, environment);
  if (!rendezvous.ok()) {
    complain(concat("rank ", member.rank, ": ", rendezvous.status().to_string()));
    return kExitFailed;
  }
  return run_job(options, make_job(**rendezvous, options, member.launcher, member.local_size,
                                   environment, make_team));
}

int run_threads(const BenchOptions& options, const Environment& environment,
                const MakeTeam& make_team) {
  const int ranks = ranks_to_start(options);
  std::vector<std::unique_ptr<Rendezvous>> rendezvous = make_in_process_rendezvous(ranks);
  std::vector<int> statuses(static_cast<size_t>(ranks), kExitOk);
  std::vector<std::thread> threads;
  for (Rank rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank, i = static_cast<size_t>(rank)] {
      BenchOptions mine = options;
      const std::string host = host_of_local_rank(options, ranks, rank);
      if (!host.empty()) mine.engine.host = host;
      statuses[i] =
          run_job(mine, make_job(*rendezvous[i], mine, "threads", ranks, environment, make_team));
    });
  for (std::thread& thread : threads) thread.join();
  return *std::max_element(statuses.begin(), statuses.end());
}

// The ranks that this process starts: all of a local job, or its part of one over several hosts.
struct Crew {
  Rank first = 0;
  int count = 0;
};

Crew crew_of(const BenchOptions& options) {
  return options.meet.empty() ? Crew{0, ranks_to_start(options)}
                              : Crew{options.first_here, options.ranks_here};
}

ProcessSpec rank_process(const BenchOptions& options, const Meeting& meeting,
                         const std::vector<int>& cpus, Rank rank) {
  const int ranks = ranks_to_start(options);
  const Crew crew = crew_of(options);
  const int local_rank = rank - crew.first;
  ProcessSpec spec;
  spec.program = "/proc/self/exe";
  spec.name = "weft-bench";
  spec.arguments = options.command_line;
  spec.environment = {{"WEFT_RANK", std::to_string(rank)},
                      {"WEFT_WORLD_SIZE", std::to_string(ranks)},
                      {"WEFT_LOCAL_RANK", std::to_string(local_rank)},
                      {"WEFT_LOCAL_SIZE", std::to_string(crew.count)},
                      {"WEFT_RENDEZVOUS", meeting.address}};
  // As mpirun does: a core each where there are enough, else it is the scheduler's affair.
  if (options.bind && crew.count <= static_cast<int>(cpus.size()))
    spec.cpu = cpus[static_cast<size_t>(local_rank)];
  if (!meeting.job.empty()) spec.environment.emplace_back("WEFT_JOB", meeting.job);
  const std::string host = host_of_local_rank(options, ranks, rank);
  if (!host.empty()) spec.environment.emplace_back("WEFT_HOST", host);
  if (meeting.listener.get() >= 0 && rank == 0) {
    spec.environment.emplace_back("WEFT_RENDEZVOUS", concat("fd:", meeting.listener.get()));
    spec.inherited_fd = meeting.listener.get();
  }
  return spec;
}

int run_processes(const BenchOptions& options) {
  Result<Meeting> meeting = options.meet.empty() ? make_meeting(options.engine.interfaces)
                                                 : Meeting{{}, concat("tcp://", options.meet), {}};
  if (!meeting.ok()) {
    complain(meeting.status().message());
    return kExitFailed;
  }
  const std::vector<int> cpus = cpus_core_by_core();
  std::vector<ProcessSpec> specs;
  const Crew crew = crew_of(options);
  for (Rank rank = crew.first; rank < crew.first + crew.count; ++rank)
    specs.push_back(rank_process(options, *meeting, cpus, rank));
  const Result<Outcome> outcome = run_together(specs, kGraceS);
  if (!outcome.ok()) {
    complain(outcome.status().message());
    return kExitFailed;
  }
  if (outcome->first_failed >= 0)
    complain(concat("rank ", crew.first + outcome->first_failed, " ", outcome->reason, "."));
  return outcome->exit_status;
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
  return Start::join;
}

std::string host_of_local_rank(const BenchOptions& options, int ranks, Rank rank) {
  if (options.hosts == 1) return {};
  return concat("host", static_cast<int64_t>(rank) * options.hosts / ranks);
}

int launch(const BenchOptions& options, const Environment& environment, const MakeTeam& make_team) {
  const Result<Membership> member = membership_from(environment);
  const Result<Start> start = member.ok() ? how_to_start(options, *member) : member.status();
  if (!start.ok()) {
    complain(start.status().message());
    return kExitUsage;
  }
  switch (*start) {
    case Start::join: return join(options, *member, environment, make_team);
    case Start::threads: return run_threads(options, environment, make_team);
    case Start::processes: return run_processes(options);
  }
  return kExitFailed;
}

}  // namespace weft::bench
