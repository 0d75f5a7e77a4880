// What one access to device memory moves.
#pragma once

#include <cstdint>

namespace weft::device {

struct alignas(16) Vec16 {
  uint64_t low, high;
};

}  // namespace weft::device
