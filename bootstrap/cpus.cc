#include "bootstrap/cpus.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <numeric>
#include <thread>
#include <utility>

#include "base/text.h"

namespace weft {
namespace {

constexpr int kMostCpus = 1 << 16;

int read_number(const std::string& path, int otherwise) {
  std::ifstream file(path);
  int value = 0;
  return file >> value ? value : otherwise;
}

}  // namespace

std::vector<int> usable_cpus() {
  std::vector<int> cpus;
  for (int most = CPU_SETSIZE; most <= kMostCpus && cpus.empty(); most *= 2) {
    const size_t bytes = CPU_ALLOC_SIZE(most);
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> allowed(
        CPU_ALLOC(most), [](cpu_set_t* set) { CPU_FREE(set); });
    if (!allowed || ::sched_getaffinity(0, bytes, allowed.get()) != 0) continue;
    for (int cpu = 0; cpu < most; ++cpu)
      if (CPU_ISSET_S(cpu, bytes, allowed.get())) cpus.push_back(cpu);
  }
  if (!cpus.empty()) return cpus;
  cpus.resize(std::max(1U, std::thread::hardware_concurrency()));
  std::iota(cpus.begin(), cpus.end(), 0);
  return cpus;
}

std::string cpu_list(const std::vector<int>& cpus) {
  std::string text;
  for (size_t i = 0; i < cpus.size();) {
    size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    text += concat(text.empty() ? "" : ",", cpus[i]);
    if (last > i) text += concat("-", cpus[last]);
    i = last + 1;
  }
  return text;
}

Result<std::vector<int>> read_cpu_list(std::string_view text) {
  const auto bad = [whole = text] {
    return invalid_argument(
        concat("\"", whole.substr(0, 64), "\" is not a list of CPUs; expected one like 0-3,8"));
  };
  std::vector<int> cpus;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto number = [&](int& value) {
    const auto [next, error] = std::from_chars(at, end, value);
    at = next;
    return error == std::errc() && value >= 0 && value < kMostCpus;
  };
  for (bool more = !text.empty(); more;) {
    int first = 0, last = 0;
    if (!number(first)) return bad();
    last = first;
    if (at != end && *at == '-' && (++at, !number(last))) return bad();
    if (last < first || (!cpus.empty() && first <= cpus.back())) return bad();
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
    more = at != end;
    if (more && *at++ != ',') return bad();
  }
  return cpus;
}

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
