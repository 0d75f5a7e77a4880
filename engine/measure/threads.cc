#include "engine/measure/threads.h"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/thread.h"
#include "bootstrap/cpus.h"
#include "engine/backoff.h"

namespace weft::measuring {
namespace {

double cpu_s() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace

double now_s() { return static_cast<double>(steady_clock().now_ns()) * 1e-9; }

double typical(const Deadline& until, const std::function<double()>& measure) {
  std::vector<double> times{measure()};
  while (times.size() < size_t{kRepeats} && !until.expired()) times.push_back(measure());
  return median(std::move(times));
}

double least(const Deadline& until, const std::function<double()>& measure, int repeats) {
  double best = measure();
  for (int i = 1; i < repeats && !until.expired(); ++i) best = std::min(best, measure());
  return best;
}

void relax(uint64_t spins, bool one_core) {
  one_core || spins % 4096 == 0 ? void(::sched_yield()) : cpu_relax();
}

double Watch::share() const { return ran_s > 0 ? std::min(1.0, had_s / ran_s) : 1; }

double together(Watch& watch, int count, const std::function<int(int)>& core,
                const std::function<void(int)>& body) {
  const std::vector<int> cpus = cpus_core_by_core();
  std::atomic<int> missing{count};
  std::vector<double> begins(static_cast<size_t>(count)), ends(begins), had(begins);
  auto threads = start_threads(static_cast<size_t>(count), [&](size_t thread) {
    const int i = static_cast<int>(thread);
    bind_to_cpu(cpus[static_cast<size_t>(core(i)) % cpus.size()]);
    missing.fetch_sub(1);
    while (missing.load() > 0) std::this_thread::yield();
    begins[thread] = now_s();
    const double cpu = cpu_s();
    body(i);
    had[thread] = cpu_s() - cpu;
    ends[thread] = now_s();
  });
  if (!threads.ok()) {
    watch.failed = threads.status();
    return 0;
  }
  for (std::thread& thread : *threads) thread.join();
  for (size_t i = 0; i < had.size(); ++i) {
    watch.ran_s += ends[i] - begins[i];
    watch.had_s += had[i];
  }
  return *std::max_element(ends.begin(), ends.end()) -
         *std::min_element(begins.begin(), begins.end());
}

}  // namespace weft::measuring
