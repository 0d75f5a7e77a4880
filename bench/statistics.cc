#include "bench/statistics.h"

#include <algorithm>

namespace weft::bench {

double quantile(const std::vector<double>& ascending, double share) {
  const double place = share * static_cast<double>(ascending.size() - 1);
  const auto below = static_cast<size_t>(place);
  const double low = ascending[below], high = ascending[std::min(below + 1, ascending.size() - 1)];
  return low + (place - static_cast<double>(below)) * (high - low);
}

Summary summarize(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {quantile(values, 0.5), quantile(values, 0.25), quantile(values, 0.75), values.size()};
}

}  // namespace weft::bench
