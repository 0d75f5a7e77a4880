#include "bench/alike.h"

#include <algorithm>
#include <limits>

namespace weft::bench {
namespace {

// The same two cores' hops differ less from run to run. Threads of one core, cores that share a
// cache, and others differ by more from each other: 0.02, 0.055 and 0.25 us on a Zen 5.
constexpr double kAlike = 1.6;

// From this hop on, and the runs there.
Distance distance_from(double least_us, const std::vector<std::vector<Hops>>& runs) {
  Distance distance{least_us, kAlike * least_us, std::numeric_limits<size_t>::max()};
  for (const std::vector<Hops>& of_one : runs) {
    if (of_one.empty()) continue;
    const auto there = std::count_if(of_one.begin(), of_one.end(),
                                     [&](const Hops& run) { return distance.holds(run); });
    distance.runs = std::min(distance.runs, static_cast<size_t>(there));
  }
  return distance;
}

}  // namespace

bool Distance::holds(const Hops& run) const {
  const auto [low, high] = std::minmax(run.before_us, run.after_us);
  return least_us <= low && high <= most_us;
}

std::optional<Distance> alike(const std::vector<std::vector<Hops>>& runs) {
  std::optional<Distance> best;
  for (const std::vector<Hops>& of_one : runs)
    for (const Hops& run : of_one) {
      const Distance found = distance_from(std::min(run.before_us, run.after_us), runs);
      const bool better = !best || found.runs > best->runs ||
                          (found.runs == best->runs && found.least_us < best->least_us);
      if (found.runs > 0 && better) best = found;
    }
  return best;
}

}  // namespace weft::bench
