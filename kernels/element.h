// A reduction one element at a time, as a GPU thread does it; for host and device.
//
// The SIMD loops of the CPU (kernels/vector.h) give the same bits; kernels/reduce.h says what they
// are.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/ops.h"

namespace weft {

// Integers, float and double.
template <class T>
struct ElementRules {
  using Acc = T;
  static WEFT_HD Acc unpack(T value) { return value; }
  static WEFT_HD T pack(Acc acc) {
    if constexpr (std::is_same_v<T, float>) {
      return canonical(acc, kNan32);
    } else if constexpr (std::is_same_v<T, double>) {
      return canonical(acc, kNan64);
    } else {
      return acc;
    }
  }
  static WEFT_HD Acc scale(Acc acc, Acc scalar) { return Prod::apply(acc, scalar); }
  // Integers are rounded toward zero.
  static WEFT_HD Acc divide(Acc acc, int64_t divisor) {
    if constexpr (std::is_floating_point_v<T>) {
      return acc / static_cast<T>(divisor);
    } else if constexpr (std::is_unsigned_v<T>) {
      return static_cast<T>(acc / static_cast<uint64_t>(divisor));
    } else {
      return static_cast<T>(acc / divisor);
    }
  }
};

// The narrow formats are folded as floats.
template <int E, int M, uint32_t N, uint32_t O, class B>
struct ElementRules<SmallFloat<E, M, N, O, B>> {
  using Format = SmallFloat<E, M, N, O, B>;
  using Acc = float;
  static WEFT_HD Acc unpack(Format value) { return to_float(value); }
  static WEFT_HD Format pack(Acc acc) { return from_float<Format>(acc); }
  // The product is rounded to the format, as if it had been stored.
  static WEFT_HD Acc scale(Acc acc, Acc scalar) { return unpack(pack(acc * scalar)); }
  static WEFT_HD Acc divide(Acc acc, int64_t divisor) { return acc / static_cast<float>(divisor); }
};

template <class T>
struct ElementRules<Complex<T>> {
  using Acc = Complex<T>;
  using Part = ElementRules<T>;
  static WEFT_HD Acc unpack(Acc value) { return value; }
  static WEFT_HD Acc pack(Acc acc) { return {Part::pack(acc.re), Part::pack(acc.im)}; }
  static WEFT_HD Acc scale(Acc acc, Acc scalar) { return Prod::apply(acc, scalar); }
  static WEFT_HD Acc divide(Acc acc, int64_t divisor) {
    return {Part::divide(acc.re, divisor), Part::divide(acc.im, divisor)};
  }
};

}  // namespace weft
