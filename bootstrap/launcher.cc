// membership_from of bootstrap/rendezvous.h: one function per launcher, tried in order.
#include <algorithm>
#include <array>
#include <functional>

#include "base/hash.h"
#include "base/parse.h"
#include "base/text.h"
#include "bootstrap/rendezvous.h"
#include "bootstrap/slurm.h"

namespace weft {
namespace {

constexpr int kMaxRanks = 1 << 20;
// Ports derived from a job's name: below the range that systems give out by themselves (from
// 32768).
constexpr int kFirstPort = 20000;
constexpr int kPorts = 10000;

int derived_port(std::string_view job, int attempt) {
  return kFirstPort + static_cast<int>(hash_of(concat(job, "#", attempt)) % kPorts);
}

std::string bracketed(const std::string& host) {
  return host.find(':') == std::string::npos || host.starts_with('[') ? host
                                                                      : concat("[", host, "]");
}

// "tcp://host:p1,host:p2,host:p3": rank 0 takes the first port that is free.
std::string derived_tcp(const std::string& host, std::string_view job) {
  std::string text = "tcp://";
  for (int attempt = 0; attempt < 3; ++attempt)
    text.append(concat(attempt ? "," : "", bracketed(host), ":", derived_port(job, attempt)));
  return text;
}

// The variables of one launcher. The first that is missing or malformed is remembered, and apart
// from it the first of those that say where on its host a rank is.
class Variables {
 public:
  explicit Variables(const Environment& env) : env_(env) {}

  bool has(std::string_view name) const { return env_.get(name).has_value(); }
  std::string text(std::string_view name) {
    const auto value = env_.get(name);
    if (!value) fail(concat("The environment variable ", name, " is missing beside the others."));
    return value.value_or("");
  }
  int number(std::string_view name, int64_t at_least, int64_t at_most) {
    return number(name, at_least, at_most, status_);
  }
  int place_number(std::string_view name, int64_t at_least, int64_t at_most) {
    return number(name, at_least, at_most, of_place_);
  }
  void fail(std::string why) {
    if (status_.ok()) status_ = invalid_argument(std::move(why));
  }
  const Status& status() const { return status_; }
  const Status& of_place() const { return of_place_; }

 private:
  int number(std::string_view name, int64_t at_least, int64_t at_most, Status& status) {
    const std::string value = text(name);
    if (value.empty()) return 0;
    const Result<int64_t> parsed = parse_int(value, at_least, at_most);
    if (!parsed.ok() && status.ok()) status = parsed.status().within(name);
    return parsed.ok() ? static_cast<int>(*parsed) : 0;
  }

  const Environment& env_;
  Status status_;
  Status of_place_;
};

struct Names {
  const char* launcher;
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;  // "" where there is none
  const char* node = "";
};

constexpr Names kWeft{"weft", "WEFT_RANK", "WEFT_WORLD_SIZE", "WEFT_LOCAL_RANK", "WEFT_LOCAL_SIZE"};
constexpr Names kTorch{"torchrun",         "RANK",      "WORLD_SIZE", "LOCAL_RANK",
                       "LOCAL_WORLD_SIZE", "GROUP_RANK"};
constexpr Names kOpenMpi{"openmpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                         "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};
constexpr Names kPmi{"pmi", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};

// Rank and size, which are required, and their local twins, which are not.
Membership read_numbers(Variables& variables, const Names& names) {
  Membership member;
  member.launcher = names.launcher;
  member.size = variables.number(names.size, 1, kMaxRanks);
  member.rank = variables.number(names.rank, 0, std::max(member.size - 1, 0));
  if (variables.has(names.local_size))
    member.local_size = variables.place_number(names.local_size, 1, std::max(member.size, 1));
  member.is_placed = variables.has(names.local_rank);
  if (member.is_placed)
    member.local_rank = variables.place_number(
        names.local_rank, 0, variables.has(names.local_size) ? member.local_size - 1 : kMaxRanks);
  if (variables.has(names.node)) member.node = variables.place_number(names.node, 0, kMaxRanks);
  return member;
}

bool any_of(const Variables& variables, const Names& names) {
  return variables.has(names.rank) || variables.has(names.size);
}

// Each of these is called when its launcher's variables are there; `fixed` says that
// WEFT_RENDEZVOUS replaces the place.
Membership from_weft(Variables& variables, bool) {
  Membership member = read_numbers(variables, kWeft);
  if (member.size > 1) member.rendezvous = variables.text("WEFT_RENDEZVOUS");
  return member;
}

Membership from_torch(Variables& variables, bool fixed) {
  Membership member = read_numbers(variables, kTorch);
  if (member.size <= 1 || fixed) return member;
  const std::string host = variables.text("MASTER_ADDR");
  const int port = variables.number("MASTER_PORT", 1, 65535);
  if (variables.has("TORCHELASTIC_RUN_ID")) {  // then torchrun's own store listens at MASTER_PORT
    // Not TORCHELASTIC_RESTART_COUNT: each node counts its own restarts. The workers of before have
    // ended by then.
    member.job = concat("torchrun-", variables.text("TORCHELASTIC_RUN_ID"), "-", port);
    member.rendezvous = derived_tcp(host, member.job);
  } else {
    member.rendezvous = concat("tcp://", bracketed(host), ":", port);
  }
  return member;
}

// The hosts of "123.0;tcp://10.0.0.1,10.0.1.1:4000;tcp6://[fd00::1]:4001", as host:port with
// `port`.
std::string hnp_targets(std::string_view uri, int port) {
  std::string targets;
  for (size_t at = uri.find("://"); at != std::string_view::npos; at = uri.find("://")) {
    uri.remove_prefix(at + 3);
    std::string hosts(uri.substr(0, uri.find(';')));
    hosts.resize(hosts.rfind(':') == std::string::npos ? hosts.size() : hosts.rfind(':'));
    std::erase_if(hosts, [](char c) { return c == '[' || c == ']'; });
    for (size_t start = 0; start < hosts.size();) {
      const size_t end = std::min(hosts.find(',', start), hosts.size());
      const std::string host = bracketed(hosts.substr(start, end - start));
      targets.append(concat(targets.empty() ? "" : ",", host, ":", port));
      start = end + 1;
    }
  }
  return targets;
}

// "prterun-HOST-1234@1", as Open MPI 5 names its jobs -> HOST.
std::string host_in_namespace(std::string_view name) {
  const size_t first = name.find('-');
  const size_t last = name.rfind('-');
  if (!name.starts_with("prte") || first == last) return "";
  return std::string(name.substr(first + 1, last - first - 1));
}

Membership from_open_mpi(Variables& variables, bool fixed) {
  Membership member = read_numbers(variables, kOpenMpi);
  if (member.size <= 1 || fixed) return member;
  const char* const name =
      variables.has("PMIX_NAMESPACE") ? "PMIX_NAMESPACE" : "OMPI_MCA_ess_base_jobid";
  const std::string space = variables.text(name);
  member.job = concat("openmpi-", space);
  constexpr const char* kJobKey = "OMPI_MCA_orte_precondition_transports";  // random, one per job
  if (variables.has(kJobKey)) member.job.append("-").append(variables.text(kJobKey));
  const bool counted = variables.has(kOpenMpi.local_size);
  if (counted && variables.number(kOpenMpi.local_size, 1, member.size) == member.size) {
    member.rendezvous = concat("unix:", hash_of(member.job));
    return member;
  }
  const int port = derived_port(member.job, 0);
  constexpr const char* kUri = "OMPI_MCA_orte_hnp_uri";
  const std::string host = host_in_namespace(space);
  std::string targets = variables.has(kUri) ? hnp_targets(variables.text(kUri), port) : "";
  if (targets.empty() && !host.empty()) targets = concat(host, ":", port);
  if (targets.empty())
    variables.fail(
        "Open MPI's environment does not say which host mpirun runs on; set "
        "WEFT_RENDEZVOUS=tcp://HOST:PORT, where HOST runs rank 0, for all ranks.");
  member.rendezvous = concat("hnp:", targets);
  return member;
}

Membership from_pmi(Variables& variables, bool fixed) {
  Membership member = read_numbers(variables, kPmi);
  if (member.size <= 1 || fixed) return member;
  variables.number("PMI_FD", 0, 1 << 30);
  member.rendezvous = "pmi";
  return member;
}

// What of a batch script does not run under srun has no step: it is alone, whatever SLURM_NTASKS
// says.
bool in_slurm_step(const Variables& variables) {
  return variables.has("SLURM_PROCID") &&
         (variables.has("SLURM_STEP_ID") || variables.has("SLURM_STEPID"));
}

Membership from_slurm(Variables& variables, bool fixed) {
  // SLURM_NTASKS_PER_NODE is what sbatch was asked for; a step may be smaller.
  const bool has_step_size = variables.has("SLURM_STEP_NUM_TASKS");
  Membership member = read_numbers(
      variables, {"slurm", "SLURM_PROCID", has_step_size ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS",
                  "SLURM_LOCALID", "", "SLURM_NODEID"});
  if (variables.has("SLURM_STEP_TASKS_PER_NODE") && variables.has("SLURM_NODEID")) {
    const auto counts = expand_counts(variables.text("SLURM_STEP_TASKS_PER_NODE"));
    const auto node = static_cast<size_t>(variables.place_number("SLURM_NODEID", 0, kMaxRanks));
    if (!counts.ok()) variables.fail(std::string(counts.status().message()));
    if (counts.ok() && node < counts->size()) member.local_size = (*counts)[node];
  }
  if (member.size <= 1 || fixed) return member;
  const char* const step = variables.has("SLURM_STEP_ID") ? "SLURM_STEP_ID" : "SLURM_STEPID";
  const char* const nodes =
      variables.has("SLURM_STEP_NODELIST") ? "SLURM_STEP_NODELIST" : "SLURM_NODELIST";
  member.job = concat("slurm-", variables.text("SLURM_JOB_ID"), ".", variables.text(step));
  const auto hosts = expand_hosts(variables.text(nodes));
  if (!hosts.ok()) variables.fail(concat(nodes, ": ", hosts.status().message()));
  if (!variables.status().ok()) return member;
  member.rendezvous = hosts->size() == 1 ? concat("unix:", hash_of(member.job))
                                         : derived_tcp(hosts->front(), member.job);
  return member;
}

Membership detect(Variables& variables, bool fixed) {
  if (any_of(variables, kWeft)) return from_weft(variables, fixed);
  if (any_of(variables, kTorch)) return from_torch(variables, fixed);
  if (any_of(variables, kOpenMpi)) return from_open_mpi(variables, fixed);
  const bool step = in_slurm_step(variables);
  if (any_of(variables, kPmi) && (variables.has("PMI_FD") || !step))
    return from_pmi(variables, fixed);
  if (step) return from_slurm(variables, fixed);
  if (fixed)
    variables.fail(
        "WEFT_RENDEZVOUS is set, but WEFT_RANK and WEFT_WORLD_SIZE are not, and no launcher "
        "that weft knows says which rank this is; set them as well.");
  return {};
}

}  // namespace

Result<Membership> membership_from(const Environment& env, Status* of_place) {
  Variables variables(env);
  const auto place = env.get("WEFT_RENDEZVOUS");
  Membership member = detect(variables, place.has_value());
  WEFT_TRY(variables.status());
  if (of_place)
    *of_place = variables.of_place();
  else
    WEFT_TRY(variables.of_place());
  if (member.size > 1 && place) {
    member.rendezvous = *place;
    member.job.clear();
  }
  if (const auto job = env.get("WEFT_JOB")) member.job = *job;
  return member;
}

}  // namespace weft
