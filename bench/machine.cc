#include "bench/machine.h"

#include <sched.h>
#include <sys/utsname.h>

#include <array>
#include <ctime>
#include <fstream>
#include <thread>

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

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(std::thread::hardware_concurrency());
}

}  // namespace

Machine this_machine() {
  Machine machine;
  utsname system{};
  if (::uname(&system) == 0) {
    machine.host = system.nodename;
    machine.kernel = concat(system.sysname, " ", system.release);
  }
  machine.cpu = cpu_model();
  machine.cores = usable_cores();
  return machine;
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
