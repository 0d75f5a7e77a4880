// How the parts of the machine are measured (engine/measure/node.h): threads that begin together,
// each on a core of its own, and the median, or the least, of several times.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/clock.h"
#include "base/status.h"

namespace weft::measuring {

double now_s();

inline constexpr int kRepeats = 9;
// Of several measurements, of fewer once `until` has passed. What a core does itself is typical:
// where it is half of one that others use, too (SMT), it has the whole one now and then and is
// twice as fast, which jobs do not see, as a rule.
double typical(const Deadline& until, const std::function<double()>& measure);
// Of what moves bytes the least: whatever else uses the caches and the memory meanwhile only adds
// to it.
double least(const Deadline& until, const std::function<double()>& measure, int repeats);

// REQUIRES: not empty.
template <class T>
T median(std::vector<T> times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

// While waiting for another thread. It may need this core: then no relaxing helps, and where there
// is only one, it does.
void relax(uint64_t spins, bool one_core);

// What threads that measure have met with.
struct Watch {
  Deadline until;               // nothing is repeated any more
  Status failed;                // there are no such threads
  double ran_s = 0, had_s = 0;  // and had their cores

  // 1 where nobody else ran.
  double share() const;
};

// The seconds from the start of `count` threads, thread i on core `core(i)`, until all have ended;
// none where the watch says that there are no such threads.
double together(Watch& watch, int count, const std::function<int(int)>& core,
                const std::function<void(int)>& body);

inline int own_core(int thread) { return thread; }
inline int same_core(int) { return 0; }

}  // namespace weft::measuring
