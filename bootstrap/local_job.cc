#include "bootstrap/local_job.h"

#include <fstream>

#include "base/text.h"
#include "bootstrap/cpus.h"

namespace weft {
namespace {

constexpr double kGraceS = 3;  // from the first rank that fails until the others are killed

int cpu_of(const LocalJob& job, const std::vector<int>& cpus, int local_rank) {
  const auto rank = static_cast<size_t>(local_rank), ranks = static_cast<size_t>(job.count);
  const bool blocks = job.binding == CpuBinding::in_blocks && ranks > cpus.size();
  return cpus[blocks ? rank * cpus.size() / ranks : rank % cpus.size()];
}

// Where the ranks meet that do not listen themselves. One of them may come before rank 0 does, but
// not before the listener: where nobody listens, nobody is going to.
std::string place_of(const Meeting& meeting) {
  constexpr std::string_view kTcp = "tcp://";
  if (!meeting.listener.valid() || !meeting.address.starts_with(kTcp)) return meeting.address;
  return concat("open:", meeting.address.substr(kTcp.size()));
}

ProcessSpec rank_process(const LocalJob& job, const Meeting& meeting, const std::vector<int>& cpus,
                         Rank rank) {
  const int local_rank = rank - job.first;
  ProcessSpec spec;
  spec.program = "/proc/self/exe";
  spec.name = job.name;
  spec.arguments = job.arguments;
  spec.environment = {{"WEFT_RANK", std::to_string(rank)},
                      {"WEFT_WORLD_SIZE", std::to_string(job.ranks)},
                      {"WEFT_LOCAL_RANK", std::to_string(local_rank)},
                      {"WEFT_LOCAL_SIZE", std::to_string(job.count)},
                      {"WEFT_RENDEZVOUS", place_of(meeting)},
                      {kSupervised, "1"}};
  if (job.binding != CpuBinding::none) spec.cpu = cpu_of(job, cpus, local_rank);
  if (!meeting.job.empty()) spec.environment.emplace_back("WEFT_JOB", meeting.job);
  if (!job.hosts.empty())
    spec.environment.emplace_back("WEFT_HOST", job.hosts[static_cast<size_t>(rank)]);
  if (meeting.listener.valid() && rank == 0) {
    spec.environment.emplace_back("WEFT_RENDEZVOUS", concat("fd:", meeting.listener.get()));
    spec.inherited_fd = meeting.listener.get();
  }
  return spec;
}

}  // namespace

Result<Outcome> run_local_job(const LocalJob& job, Meeting meeting) {
  const std::vector<int> cpus = cpus_core_by_core();
  std::vector<ProcessSpec> specs;
  for (Rank rank = job.first; rank < job.first + job.count; ++rank)
    specs.push_back(rank_process(job, meeting, cpus, rank));
  return run_together(specs, kGraceS, job.on_loss, std::move(meeting.listener));
}

std::vector<std::string> own_arguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> arguments;
  for (std::string argument; std::getline(file, argument, '\0');) arguments.push_back(argument);
  if (!arguments.empty()) arguments.erase(arguments.begin());
  return arguments;
}

}  // namespace weft
