// Each reduction as a function of two accumulators, for host and device.
//
// An accumulator is a number (integers; float for the narrow formats; Complex) or a compiler vector
// of numbers. Integers are folded as unsigned ones, except by Min and Max, so that sums and
// products wrap.
#pragma once

#include "kernels/number.h"

namespace weft {

// Integers shorter than int would be promoted to it, where the product of two can overflow.
template <class A>
using Wrapping = std::conditional_t<std::is_integral_v<A>, uint64_t, A>;

struct Sum {
  template <class A>
  static WEFT_HD constexpr A apply(A a, A b) {
    return static_cast<A>(static_cast<Wrapping<A>>(a) + static_cast<Wrapping<A>>(b));
  }
  template <class T>
  static WEFT_HD constexpr Complex<T> apply(Complex<T> a, Complex<T> b) {
    return {a.re + b.re, a.im + b.im};
  }
};

struct Prod {
  template <class A>
  static WEFT_HD constexpr A apply(A a, A b) {
    return static_cast<A>(static_cast<Wrapping<A>>(a) * static_cast<Wrapping<A>>(b));
  }
  // The schoolbook product: no recovery of infinities.
  template <class T>
  static WEFT_HD constexpr Complex<T> apply(Complex<T> a, Complex<T> b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  }
};

// NaN where either is NaN; -0.0 is less than +0.0. U: the unsigned integer as wide as F.
template <class U, class F>
WEFT_HD constexpr F min_of_floats(F a, F b) {
  const U lesser = bit_cast<U>(a < b ? a : b);  // b where they are equal or one is NaN
  const U ordered = a == b ? bit_cast<U>(a) | bit_cast<U>(b) : lesser;
  return a != a ? a : bit_cast<F>(ordered);
}

template <class U, class F>
WEFT_HD constexpr F max_of_floats(F a, F b) {
  const U greater = bit_cast<U>(a > b ? a : b);
  const U ordered = a == b ? bit_cast<U>(a) & bit_cast<U>(b) : greater;
  return a != a ? a : bit_cast<F>(ordered);
}

struct Min {
  template <class A>
  static WEFT_HD constexpr A apply(A a, A b) {
    return a < b ? a : b;
  }
  static WEFT_HD constexpr float apply(float a, float b) { return min_of_floats<uint32_t>(a, b); }
  static WEFT_HD constexpr double apply(double a, double b) {
    return min_of_floats<uint64_t>(a, b);
  }
};

struct Max {
  template <class A>
  static WEFT_HD constexpr A apply(A a, A b) {
    return a > b ? a : b;
  }
  static WEFT_HD constexpr float apply(float a, float b) { return max_of_floats<uint32_t>(a, b); }
  static WEFT_HD constexpr double apply(double a, double b) {
    return max_of_floats<uint64_t>(a, b);
  }
};

struct BitAnd {
  template <class A>
  static WEFT_HD constexpr A apply(A a, A b) {
    return static_cast<A>(a & b);
  }
};

struct BitOr {
  template <class A>
  static WEFT_HD constexpr A apply(A a, A b) {
    return static_cast<A>(a | b);
  }
};

struct BitXor {
  template <class A>
  static WEFT_HD constexpr A apply(A a, A b) {
    return static_cast<A>(a ^ b);
  }
};

}  // namespace weft
