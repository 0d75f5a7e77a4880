#include "bootstrap/cpus.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <thread>
#include <utility>

#include "base/json_object.h"
#include "base/text.h"

namespace weft {
namespace {

constexpr int kMostCpus = 1 << 16;

// Of so many; cpu_set_t itself ends at 1024.
using CpuSet = std::array<cpu_set_t, kMostCpus / CPU_SETSIZE>;

int read_number(const std::string& path, int otherwise) {
  std::ifstream file(path);
  int value = 0;
  return file >> value ? value : otherwise;
}

}  // namespace

std::vector<int> usable_cpus() {
  std::vector<int> cpus;
  CpuSet allowed{};
  if (::sched_getaffinity(0, sizeof allowed, allowed.data()) == 0)
    for (int cpu = 0; cpu < kMostCpus; ++cpu)
      if (CPU_ISSET_S(cpu, sizeof allowed, allowed.data())) cpus.push_back(cpu);
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
    return invalid_argument(concat(json_text(nlohmann::json(whole.substr(0, 64))),
                                   " is not a list of CPUs; expected one like 0-3,8"));
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
  CpuSet one{};
  CPU_SET_S(cpu, sizeof one, one.data());
  ::sched_setaffinity(0, sizeof one, one.data());
}

void unbind_from_cpus() {
  CpuSet all;
  std::memset(all.data(), 0xff, sizeof all);
  ::sched_setaffinity(0, sizeof all, all.data());
}

}  // namespace weft
