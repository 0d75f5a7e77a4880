#include "bench/alike.h"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace weft::bench {
namespace {

// The same two cores' hops differ less from run to run. Threads of one core, cores that share a
// cache, and others differ by more from each other: 0.02, 0.055 and 0.25 us on a Zen 5.
constexpr double kAlike = 1.6;

bool near_each_other(double a_us, double b_us) {
  return std::max(a_us, b_us) <= kAlike * std::min(a_us, b_us);
}

bool is_at(const Hops& run, double hop_us) {
  return near_each_other(run.before_us, hop_us) && near_each_other(run.after_us, hop_us);
}

// Runs at this distance of the library that has the fewest.
ptrdiff_t fewest_at(const std::vector<std::vector<Hops>>& runs, double hop_us) {
  ptrdiff_t fewest = std::numeric_limits<ptrdiff_t>::max();
  for (const std::vector<Hops>& of_one : runs)
    if (!of_one.empty())
      fewest = std::min(fewest, std::count_if(of_one.begin(), of_one.end(),
                                              [&](const Hops& run) { return is_at(run, hop_us); }));
  return fewest;
}

}  // namespace

std::vector<std::vector<bool>> alike(const std::vector<std::vector<Hops>>& runs) {
  double at_us = 0;
  ptrdiff_t most = 0;
  for (const std::vector<Hops>& of_one : runs)
    for (const Hops& run : of_one) {
      const ptrdiff_t fewest = fewest_at(runs, run.before_us);
      if (fewest < most || fewest == 0) continue;
      if (fewest == most && at_us <= run.before_us) continue;
      most = fewest;
      at_us = run.before_us;
    }
  std::vector<std::vector<bool>> found;
  for (const std::vector<Hops>& of_one : runs) {
    std::vector<bool>& mine = found.emplace_back();
    for (const Hops& run : of_one) mine.push_back(most > 0 && is_at(run, at_us));
  }
  return found;
}

}  // namespace weft::bench
