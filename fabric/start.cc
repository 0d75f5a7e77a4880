#include "fabric/start.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "base/parse.h"
#include "base/text.h"

namespace weft {
namespace {

constexpr int kRanksMax = 1 << 20;
constexpr int kLocalRanksMax = 4096;
// Set in a process that has joined a job of several ranks, and in what it starts.
constexpr const char* kLaunched = "WEFT_LAUNCHED";

Status check(const FabricConfig& config) {
  if (config.accelerator == Accelerator::gpu)
    return unsupported("accelerator is gpu; this version of weft has none. Use cpu or automatic.");
  if (config.devices < 0 || config.num_nodes < 0 ||
      int64_t{std::max(config.devices, 1)} * std::max(config.num_nodes, 1) > kRanksMax)
    return invalid_argument(concat("devices is ", config.devices, " and num_nodes ",
                                   config.num_nodes, "; give 1 or more, 0 for the launcher's, and ",
                                   kRanksMax, " ranks at most."));
  return {};
}

// In a job of a launcher's.
Result<StartPlan> plan_join(const FabricConfig& config, const Membership& member,
                            const Environment& env) {
  if (env.get(kLaunched))
    return invalid_argument(
        "this process has been launched already, or a rank has started it; a process is a rank of "
        "one job only, so call launch() once and keep the fabric.");
  const int nodes = std::max(config.num_nodes, 1);
  const bool given = config.devices > 0;
  if (given && int64_t{config.devices} * nodes != member.size)
    return invalid_argument(concat(
        "the fabric asks for ", config.devices, " devices on ", nodes, " nodes, ",
        config.devices * nodes, " ranks, but this process is part of a job of ", member.size, " (",
        member.launcher, "); leave devices and num_nodes at 0 to take what the launcher started."));
  if (config.strategy == Strategy::threads && member.size > 1)
    return invalid_argument(concat("strategy is threads, but this process is part of a job of ",
                                   member.size, " ranks (", member.launcher,
                                   "); leave it at processes."));
  StartPlan plan;
  plan.ours = member.launcher == "weft" && env.get(kSupervised);
  plan.join = {member.rank, member.size, member.rendezvous, member.job};
  plan.place = hint_of(member);
  return plan;
}

// One of several nodes that no launcher has started: where they meet, and which one this is.
Status plan_node(int nodes, const Environment& env, StartPlan& plan) {
  const auto host = env.get("MASTER_ADDR"), port = env.get("MASTER_PORT"),
             node = env.get("NODE_RANK");
  if (!host || !port || !node)
    return invalid_argument(
        concat("num_nodes is ", nodes,
               ", but no launcher has started this process; start it on every node "
               "with MASTER_ADDR (a host that runs node 0), MASTER_PORT and NODE_RANK (0 to ",
               nodes - 1, ") in the environment, or by torchrun, srun or mpirun."));
  const Result<int64_t> index = parse_int(*node, 0, nodes - 1);
  if (!index.ok()) return index.status().within("NODE_RANK");
  const Result<int64_t> number = parse_int(*port, 1, 65535);
  if (!number.ok()) return number.status().within("MASTER_PORT");
  plan.job.first = static_cast<Rank>(*index) * plan.job.count;
  const bool bare_v6 = host->find(':') != std::string::npos && !host->starts_with('[');
  plan.meet = concat("tcp://", bare_v6 ? "[" + *host + "]" : *host, ":", *number);
  return {};
}

}  // namespace

Result<StartPlan> plan_start(const FabricConfig& config, const Environment& env) {
  WEFT_TRY(check(config));
  const Result<Membership> member = membership_from(env);
  if (!member.ok()) return member.status();
  const int nodes = std::max(config.num_nodes, 1);
  const int devices = std::max(config.devices, 1);
  const bool alone = member->size == 1 && member->launcher != "weft";
  if (!alone || (devices * nodes == 1 && config.strategy == Strategy::processes))
    return plan_join(config, *member, env);
  if (devices > kLocalRanksMax)
    return invalid_argument(concat("devices is ", devices, "; launch() starts at most ",
                                   kLocalRanksMax, " ranks on a machine."));
  StartPlan plan;
  plan.job.ranks = devices * nodes;
  plan.job.count = devices;
  if (config.strategy == Strategy::threads) {
    if (nodes > 1)
      return invalid_argument(concat("strategy is threads, but num_nodes is ", nodes,
                                     "; threads are of one process on one machine."));
    plan.how = StartPlan::How::threads;
    return plan;
  }
  plan.how = StartPlan::How::processes;
  if (nodes > 1) WEFT_TRY(plan_node(nodes, env, plan));
  if (config.keep_going)
    plan.job.on_loss = [first = plan.job.first](int index, const std::string& how) {
      complain(concat("rank ", first + index, " ", how, "; the others go on."));
    };
  return plan;
}

int supervise(const LocalJob& job, const std::string& meet) {
  const auto options = options_from(Environment::of_process());
  Result<Meeting> meeting = !options.ok()  ? options.status()
                            : meet.empty() ? make_meeting(options->interfaces)
                                           : Meeting{{}, meet, {}};
  LocalJob started = job;
  started.name = program_invocation_name;  // argv[0]
  started.arguments = own_arguments();
  const Result<Outcome> outcome =
      meeting.ok() ? run_local_job(started, meeting.take()) : meeting.status();
  if (!outcome.ok()) {
    complain(outcome.status().to_string());
    return kExitCannotStart;
  }
  if (outcome->exit_status == kExitSecondary) {
    std::vector<Rank> ranks;
    for (const int index : outcome->secondary) ranks.push_back(job.first + index);
    complain(concat(rank_list(ranks),
                    " ended because of another rank; what they know of it is said above."));
    return kExitFailed;
  }
  if (outcome->first_failed >= 0)
    complain(concat("rank ", job.first + outcome->first_failed, " ", outcome->reason, "."));
  return outcome->exit_status;
}

void remember_launch() {
  ::setenv(kLaunched, "1", 1);  // NOLINT(concurrency-mt-unsafe): launch() has one thread
}

void forget_launch() { ::unsetenv(kLaunched); }  // NOLINT(concurrency-mt-unsafe): as above

void complain(const std::string& message) {
  std::fputs(concat("weft: ", message, "\n").c_str(), stderr);
}

}  // namespace weft
