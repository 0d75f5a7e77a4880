// How the elements of exact floating-point inputs are chosen; see data.h.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/types.h"
#include "bench/data.h"
#include "bench/formats.h"
#include "bench/random.h"

namespace weft::bench {

// Which ranks contribute to an element, and how much: at most `contributors` ranks with magnitudes
// up to `magnitude` each.
struct Budget {
  uint64_t ranks;
  uint64_t contributors;
  uint64_t magnitude;

  Budget(int rank_count, uint64_t total)
      : ranks(static_cast<uint64_t>(rank_count)),
        contributors(std::min(ranks, total)),
        magnitude(std::max<uint64_t>(1, total / contributors)) {}

  // A window of ranks, rotated by element.
  bool contributes(uint64_t rank, uint64_t element_hash) const {
    return contributors == ranks || (rank + element_hash) % ranks < contributors;
  }
};

// A value with real and imaginary part; all operations on those used here are exact.
struct Number {
  double re = 0;
  double im = 0;
};

inline Number add(Number a, Number b) { return {a.re + b.re, a.im + b.im}; }
inline Number multiply(Number a, Number b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
// REQUIRES: b is not 0. Exact where |b|^2 is a power of two and the result fits.
inline Number divide(Number a, Number b) {
  const double square = b.re * b.re + b.im * b.im;
  return {(a.re * b.re + a.im * b.im) / square, (a.im * b.re - a.re * b.im) / square};
}

class NumberRecipe {
 public:
  explicit NumberRecipe(const Recipe& recipe)
      : recipe_(recipe),
        seed_(mix(recipe.seed)),
        format_(float_format(recipe.type)),
        complex_(is_complex(recipe.type)),
        sums_(recipe.ranks, uint64_t{1} << std::min(format_.mantissa_bits + 1, 40)),
        products_(recipe.ranks, (uint64_t{1} << (format_.exponent_bits - 1)) - 2) {}

  const FloatFormat& format() const { return format_; }
  bool complex() const { return complex_; }

  Number factor(Rank rank) const {
    if (recipe_.op != ReduceOp::premulsum) return {1, 0};
    constexpr Number kFactors[] = {{1, 0}, {2, 0}, {0.5, 0}, {-1, 0}, {-2, 0}, {0, 1}, {0, -2}};
    const uint64_t random = mix(recipe_.seed ^ 0xfac, static_cast<uint64_t>(rank));
    return kFactors[below(random, complex_ ? 7 : 5)];
  }

  // The element as it counts in the reduction: after the factor.
  Number operand(Rank rank, uint64_t element) const {
    const uint64_t shared = mix(seed_ ^ element);
    const uint64_t own = mix(shared + static_cast<uint64_t>(rank) + 1);
    if (recipe_.op == ReduceOp::prod) return product_operand(rank, shared, own);
    const auto r = static_cast<uint64_t>(rank);
    Number number;
    if (sums_.contributes(r, shared >> 32)) number.re = signed_magnitude(own);
    if (complex_ && sums_.contributes(r, shared >> 33)) number.im = signed_magnitude(mix(own));
    return number;
  }

  // The element of the input.
  Number input(Rank rank, uint64_t element) const {
    const Number number = operand(rank, element);
    return recipe_.op == ReduceOp::premulsum ? divide(number, factor(rank)) : number;
  }

  Number expected(uint64_t element) const {
    Number result = operand(0, element);
    for (Rank rank = 1; rank < recipe_.ranks; ++rank) {
      const Number next = operand(rank, element);
      result = recipe_.op == ReduceOp::prod ? multiply(result, next) : add(result, next);
    }
    return recipe_.op == ReduceOp::avg ? averaged(result) : result;
  }

  // Any numbers between 1/8 and 8 in magnitude; products: near 1, so that they stay in range.
  Number inexact(Rank rank, uint64_t element) const {
    const uint64_t own = mix(mix(seed_ ^ element) + static_cast<uint64_t>(rank) + 1);
    return {inexact_part(own), complex_ ? inexact_part(mix(own)) : 0};
  }

 private:
  double signed_magnitude(uint64_t random) const {
    const auto value = static_cast<double>(1 + below(random, sums_.magnitude));
    return random & 1 ? value : -value;
  }

  Number product_operand(Rank rank, uint64_t shared, uint64_t own) const {
    constexpr double kScales[] = {0.5, 1, 2};
    const bool scaled = products_.contributes(static_cast<uint64_t>(rank), shared >> 32);
    const double value = scaled ? kScales[below(own, 3)] : 1;
    const double with_sign = own & 1 ? value : -value;
    return complex_ && (own & 2) ? Number{0, with_sign} : Number{with_sign, 0};
  }

  // The one rounding step: the division, in float for the formats narrower than that.
  Number averaged(Number sum) const {
    const double ranks = recipe_.ranks;
    if (format_.bytes == 8) return {sum.re / ranks, sum.im / ranks};
    const auto narrow = static_cast<float>(ranks);
    return {static_cast<float>(sum.re) / narrow, static_cast<float>(sum.im) / narrow};
  }

  double inexact_part(uint64_t random) const {
    const double fraction = 1 + static_cast<double>(random >> 12) * 0x1p-52;  // [1, 2)
    const double sign = random & 1 ? 1 : -1;
    if (recipe_.op == ReduceOp::prod) return sign * (0.75 + fraction / 4);
    return sign * std::ldexp(fraction, static_cast<int>(random >> 1 & 7) - 4);
  }

  Recipe recipe_;
  uint64_t seed_;  // mixed
  FloatFormat format_;
  bool complex_;
  Budget sums_;
  Budget products_;
};

}  // namespace weft::bench
