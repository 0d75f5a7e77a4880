#include "bootstrap/cpus.h"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <utility>

namespace weft {
namespace {

std::vector<int> usable_cpus() {
  cpu_set_t allowed;
  std::vector<int> cpus;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &allowed)) cpus.push_back(cpu);
  return cpus;
}

int read_number(const std::string& path, int otherwise) {
  std::ifstream file(path);
  int value = 0;
  return file >> value ? value : otherwise;
}

}  // namespace

std::vector<int> cpus_core_by_core(const std::string& sysfs) {
  struct Place {
    int turn;  // 0 for the first CPU of its core, 1 for the second, ...
    int cpu;
  };
  std::map<std::pair<int, int>, int> seen;  // by package and core
  std::vector<Place> places;
  for (const int cpu : usable_cpus()) {
    const std::string topology = sysfs + "/cpu" + std::to_string(cpu) + "/topology/";
    const int package = read_number(topology + "physical_package_id", -1);
    const int core = read_number(topology + "core_id", -1 - cpu);
    places.push_back({seen[{package, core}]++, cpu});
  }
  std::stable_sort(places.begin(), places.end(),
                   [](const Place& a, const Place& b) { return a.turn < b.turn; });
  std::vector<int> cpus;
  for (const Place& place : places) cpus.push_back(place.cpu);
  return cpus;
}

void bind_to_cpu(int cpu) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  ::sched_setaffinity(0, sizeof one, &one);
}

void unbind_from_cpus() {
  cpu_set_t all;
  std::memset(&all, 0xff, sizeof all);
  ::sched_setaffinity(0, sizeof all, &all);
}

}  // namespace weft
