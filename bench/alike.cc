#include "bench/alike.h"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace weft::bench {
namespace {

// The same two cores' hops differ less from run to run. Threads of one core, cores that share a
// cache, and others differ by more from each other: 0.02, 0.055 and 0.25 us on a Zen 5.
constexpr double kAlike = 1.6;

// Runs at this distance of the library that has the fewest.
ptrdiff_t fewest_at(const std::vector<std::vector<Hops>>& runs, const Distance& distance) {
  ptrdiff_t fewest = std::numeric_limits<ptrdiff_t>::max();
  for (const std::vector<Hops>& of_one : runs)
    if (!of_one.empty())
      fewest = std::min(fewest, std::count_if(of_one.begin(), of_one.end(), [&](const Hops& run) {
                          return distance.holds(run);
                        }));
  return fewest;
}

}  // namespace

bool Distance::holds(const Hops& run) const {
  const auto [low, high] = std::minmax(run.before_us, run.after_us);
  return least_us <= low && high <= most_us;
}

std::optional<Distance> alike(const std::vector<std::vector<Hops>>& runs) {
  std::optional<Distance> best;
  ptrdiff_t most = 0;
  for (const std::vector<Hops>& of_one : runs)
    for (const Hops& run : of_one) {
      const double least = std::min(run.before_us, run.after_us);
      const Distance distance{least, kAlike * least};
      const ptrdiff_t fewest = fewest_at(runs, distance);
      if (fewest == 0 || fewest < most) continue;
      if (fewest == most && best->least_us <= least) continue;
      most = fewest;
      best = distance;
    }
  return best;
}

}  // namespace weft::bench
