#include "base/ticks.h"

#include <chrono>

namespace weft {

int64_t unix_now_ns() {
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since_1970).count();
}

TickDial::Moment TickDial::now() { return {ticks(), steady_clock().now_ns(), unix_now_ns()}; }

// The rate is measured from then to now, so that nothing has to be known of the processor.
int64_t TickDial::unix_ns(const Moment& first, const Moment& last, uint64_t at) {
  if (last.ticks == first.ticks) return last.unix_ns;
  const double ns_per_tick = static_cast<double>(last.steady_ns - first.steady_ns) /
                             static_cast<double>(last.ticks - first.ticks);
  const auto ago = static_cast<double>(static_cast<int64_t>(last.ticks - at));
  return last.unix_ns - static_cast<int64_t>(ago * ns_per_tick);
}

}  // namespace weft
