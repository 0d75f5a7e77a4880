// Number formats, written plainly and apart from kernels/, which they check.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/types.h"

namespace weft::bench {

struct FloatFormat {
  int bytes;
  int exponent_bits;
  int mantissa_bits;  // stored
  bool infinity;      // the topmost exponent holds infinity and NaN only
};

// REQUIRES: a floating-point type; for complex ones the format of a component.
constexpr FloatFormat float_format(DataType type) {
  switch (type) {
    case DataType::float16: return {2, 5, 10, true};
    case DataType::bfloat16: return {2, 8, 7, true};
    case DataType::fp8_e4m3: return {1, 4, 3, false};
    case DataType::fp8_e5m2: return {1, 5, 2, true};
    case DataType::float64:
    case DataType::complex128: return {8, 11, 52, true};
    default: return {4, 8, 23, true};
  }
}

// The bits of `value` in the format, rounded to nearest even. REQUIRES: finite, and not too large.
inline uint64_t encode(const FloatFormat& format, double value) {
  if (format.bytes == 8) {
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
  }
  if (format.bytes == 4) {
    const auto narrow = static_cast<float>(value);
    uint32_t bits = 0;
    std::memcpy(&bits, &narrow, sizeof bits);
    return bits;
  }
  const uint64_t sign =
      std::signbit(value) ? uint64_t{1} << (format.exponent_bits + format.mantissa_bits) : 0;
  if (value == 0) return sign;
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  int exponent = std::ilogb(value);
  if (exponent < 1 - bias) exponent = 1 - bias;  // subnormal
  // In units of the last place; a carry moves into the exponent by itself.
  const double places =
      std::nearbyint(std::ldexp(std::fabs(value), format.mantissa_bits - exponent));
  const auto field = static_cast<uint64_t>(exponent - 1 + bias) << format.mantissa_bits;
  return sign | (field + static_cast<uint64_t>(places));
}

}  // namespace weft::bench
