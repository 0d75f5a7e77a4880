#include "bench/machine.h"

#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <ctime>
#include <fstream>
#include <limits>

#include "base/text.h"

namespace weft::bench {
namespace {

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (colon != std::string::npos && line.starts_with("model name")) return line.substr(colon + 2);
  }
  return "unknown";
}

// Infinite where the system does not tell.
double kernel_limit(const char* name) {
  std::ifstream file(concat("/proc/sys/kernel/", name));
  double most = 0;
  return file >> most ? most : std::numeric_limits<double>::infinity();
}

// Not those that this rank is bound to: the others have theirs.
int online_cores() { return static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)); }

}  // namespace

Machine this_machine() {
  Machine machine;
  utsname system{};
  if (::uname(&system) == 0) {
    machine.host = system.nodename;
    machine.kernel = concat(system.sysname, " ", system.release);
  }
  machine.cpu = cpu_model();
  machine.cores = online_cores();
  return machine;
}

double memory_bytes() {
  return static_cast<double>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<double>(::sysconf(_SC_PAGESIZE));
}

Status check_ranks(const RanksHere& ranks) {
  constexpr double kRankBytes = 2 << 20;  // of a process at least
  rlimit processes{}, descriptors{};
  ::getrlimit(RLIMIT_NPROC, &processes);
  ::getrlimit(RLIMIT_NOFILE, &descriptors);
  const auto here = static_cast<double>(ranks.here);
  const struct {
    double wanted, most;
    const char* what;
  } limits[] = {
      {here, kernel_limit("pid_max"), "processes and threads (kernel.pid_max)"},
      {here, kernel_limit("threads-max"), "processes and threads (kernel.threads-max)"},
      {::geteuid() == 0 ? 0 : here, static_cast<double>(processes.rlim_cur),
       "processes of a user (ulimit -u)"},
      {static_cast<double>(ranks.connected), static_cast<double>(descriptors.rlim_cur),
       "open files of a process, and rank 0 has a connection to every rank (ulimit -n)"},
      {ranks.threads ? 0 : here, memory_bytes() / kRankBytes, "ranks that memory has room for"},
  };
  for (const auto& limit : limits)
    if (limit.wanted > limit.most)
      return invalid_argument(concat("--ranks: ", std::llround(limit.wanted),
                                     " are too many for this machine, where ",
                                     std::llround(limit.most), " is the limit of ", limit.what,
                                     "; give fewer, or raise that."));
  return {};
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

}  // namespace weft::bench
