// How long things take, by the clock that weft's deadlines go by.
#pragma once

#include <cstdint>
#include <functional>

#include "base/clock.h"

namespace weft::test {

inline double seconds_since(int64_t begin_ns) {
  return static_cast<double>(steady_clock().now_ns() - begin_ns) * 1e-9;
}

inline double seconds_of(const std::function<void()>& action) {
  const int64_t begin_ns = steady_clock().now_ns();
  action();
  return seconds_since(begin_ns);
}

}  // namespace weft::test
