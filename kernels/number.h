// The number formats of the element types, and the one definition of how they are converted.
//
// Everything here is written twice-over generic: a value is a float (a uint32_t of bits) or a
// compiler vector of them, so the scalar code of a GPU thread and the SIMD loops of the CPU are the
// same expressions. There are no branches on data, no library calls and no intrinsics; a header can
// include this for host and device alike.
//
// Conversions to a narrower format round to nearest even, subnormals included. What does not fit
// becomes infinity in float16 and bfloat16. The two 8-bit formats saturate instead: every value
// beyond the largest finite one, infinities included, becomes the largest finite one, as CUDA
// converts by default (__NV_SATFINITE). A NaN becomes the canonical NaN of the format, without sign
// or payload.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/types.h"

// Results are the same bits whatever the compiler, and the vectors' parts are numbered from the
// lowest bytes on.
#if defined(__FAST_MATH__)
#error "weft's kernels need IEEE arithmetic: build them without -ffast-math (-Ofast)"
#endif
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);

// Host and device, and always inlined: translation units built for different instruction sets must
// not share an out-of-line copy of any of these.
#if defined(__CUDACC__)
#define WEFT_HD __host__ __device__ __forceinline__
#else
#define WEFT_HD __attribute__((always_inline)) inline
#endif

namespace weft {

template <class To, class From>
WEFT_HD constexpr To bit_cast(From from) {
  return __builtin_bit_cast(To, from);
}

template <class T>
WEFT_HD constexpr T min_of(T a, T b) {
  return a < b ? a : b;
}
template <class T>
WEFT_HD constexpr T max_of(T a, T b) {
  return a > b ? a : b;
}

// A float format narrower than binary32. kNan is its canonical NaN; kOverflow is what values round
// to that are too large: infinity, or the largest finite value.
template <int kExponentBits, int kMantissaBits, uint32_t kNanBits, uint32_t kOverflowBits, class B>
struct SmallFloat {
  using Bits = B;
  static constexpr int kMantissa = kMantissaBits;
  static constexpr int kShift = 23 - kMantissaBits;  // places between its last bit and binary32's
  static constexpr uint32_t kSign = 1u << (kExponentBits + kMantissaBits);
  static constexpr uint32_t kMagnitude = kSign - 1;
  static constexpr uint32_t kNan = kNanBits;
  static constexpr uint32_t kOverflow = kOverflowBits;
  static constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  static constexpr uint32_t kRebias = 127 - kBias;
  static constexpr int kSignShift = 31 - kExponentBits - kMantissaBits;
  // Else there is no pattern between the largest finite one and NaN.
  static constexpr bool kInfinity = kOverflowBits + 1 != kNanBits;

  // The first pattern above the finite ones.
  static constexpr uint32_t kSpecial =
      kInfinity ? ((1u << kExponentBits) - 1) << kMantissaBits : kMagnitude;

  Bits bits;
};

using Float16 = SmallFloat<5, 10, 0x7e00, 0x7c00, uint16_t>;
using BFloat16 = SmallFloat<8, 7, 0x7fc0, 0x7f80, uint16_t>;
using Fp8E4M3 = SmallFloat<4, 3, 0x7f, 0x7e, uint8_t>;  // OCP: no infinity, one NaN per sign
using Fp8E5M2 = SmallFloat<5, 2, 0x7f, 0x7b, uint8_t>;

template <class T>
struct Complex {
  T re;
  T im;
};

template <class T>
inline constexpr bool kIsSmallFloat = false;
template <int E, int M, uint32_t N, uint32_t O, class B>
inline constexpr bool kIsSmallFloat<SmallFloat<E, M, N, O, B>> = true;

template <class T>
inline constexpr bool kIsComplex = false;
template <class T>
inline constexpr bool kIsComplex<Complex<T>> = true;

// What a sum of T is kept in.
template <class T>
using Accumulator = std::conditional_t<kIsSmallFloat<T>, float, T>;

// `bits` holds one value of the format in each uint32_t; exact.
template <class Format, class F, class U>
WEFT_HD constexpr F widen(U bits) {
  if constexpr (Format::kRebias == 0) {
    return bit_cast<F>(bits << Format::kShift);
  } else {
    constexpr uint32_t kOne = 1u << 23;  // of the exponent
    constexpr uint32_t kSmallestNormal = (Format::kRebias + 1) * kOne;
    const U sign = (bits & Format::kSign) << Format::kSignShift;
    const U magnitude = (bits & Format::kMagnitude) << Format::kShift;
    const U normal = magnitude + Format::kRebias * kOne;
    // A subnormal m * 2^k is read as (2^n + m * 2^k), and 2^n taken away.
    const U subnormal =
        bit_cast<U>(bit_cast<F>(magnitude + kSmallestNormal) - bit_cast<float>(kSmallestNormal));
    const U finite = magnitude < kOne ? subnormal : normal;
    const U special = Format::kInfinity ? magnitude | 0x7f800000u : magnitude | 0x7fc00000u;
    const U absolute = magnitude < (Format::kSpecial << Format::kShift) ? finite : special;
    return bit_cast<F>(absolute | sign);
  }
}

// Rounds to the format; each uint32_t of the result holds one value's bits.
template <class Format, class F, class U>
WEFT_HD constexpr U narrow(F value) {
  constexpr int kShift = Format::kShift;
  constexpr uint32_t kHalf = 1u << (kShift - 1);
  const U bits = bit_cast<U>(value);
  const U nan = U{} + Format::kNan;
  if constexpr (Format::kRebias == 0) {  // the sign comes along, and a carry leads to infinity
    const U odd = (bits >> kShift) & 1u;
    const U rounded = (bits + odd + (kHalf - 1)) >> kShift;
    return value == value ? rounded : nan;
  } else {
    constexpr uint32_t kSmallestNormal = (Format::kRebias + 1) << 23;
    constexpr uint32_t kLimit = (Format::kOverflow << kShift) + (Format::kRebias << 23);
    const U sign = (bits >> Format::kSignShift) & Format::kSign;
    const U magnitude = min_of(bits & 0x7fffffffu, U{} + kLimit);
    // Added to a power of two whose last place is the one that the format has for such a value, the
    // hardware rounds: the last places of the sum are the significand, with its leading bit.
    const U exponent = max_of(magnitude & 0x7f800000u, U{} + kSmallestNormal);
    const U power = exponent + (uint32_t{kShift} << 23);
    const U sum = bit_cast<U>(bit_cast<F>(magnitude) + bit_cast<F>(power));
    const U rounded = (sum - power) + ((exponent >> kShift) - (kSmallestNormal >> kShift));
    const U fitting = rounded | sign;
    return value == value ? fitting : nan;
  }
}

template <int E, int M, uint32_t N, uint32_t O, class B>
WEFT_HD constexpr float to_float(SmallFloat<E, M, N, O, B> value) {
  return widen<SmallFloat<E, M, N, O, B>, float, uint32_t>(value.bits);
}

template <class Format>
WEFT_HD constexpr Format from_float(float value) {
  return Format{static_cast<typename Format::Bits>(narrow<Format, float, uint32_t>(value))};
}

// The same value, but a NaN is the canonical one: which payload survives an addition differs
// between processors. F is float or double, or a vector of them.
template <class U, class F>
WEFT_HD constexpr F canonical(F value, U nan_bits) {
  return value == value ? value : bit_cast<F>(nan_bits);
}

inline constexpr uint32_t kNan32 = 0x7fc00000u;
inline constexpr uint64_t kNan64 = 0x7ff8000000000000u;

// The C++ type of an element.
template <DataType>
struct ElementOf;
template <class T>
struct Element {
  using type = T;
};
template <>
struct ElementOf<DataType::int8> : Element<int8_t> {};
template <>
struct ElementOf<DataType::uint8> : Element<uint8_t> {};
template <>
struct ElementOf<DataType::int16> : Element<int16_t> {};
template <>
struct ElementOf<DataType::uint16> : Element<uint16_t> {};
template <>
struct ElementOf<DataType::int32> : Element<int32_t> {};
template <>
struct ElementOf<DataType::uint32> : Element<uint32_t> {};
template <>
struct ElementOf<DataType::int64> : Element<int64_t> {};
template <>
struct ElementOf<DataType::uint64> : Element<uint64_t> {};
template <>
struct ElementOf<DataType::float16> : Element<Float16> {};
template <>
struct ElementOf<DataType::bfloat16> : Element<BFloat16> {};
template <>
struct ElementOf<DataType::float32> : Element<float> {};
template <>
struct ElementOf<DataType::float64> : Element<double> {};
template <>
struct ElementOf<DataType::fp8_e4m3> : Element<Fp8E4M3> {};
template <>
struct ElementOf<DataType::fp8_e5m2> : Element<Fp8E5M2> {};
template <>
struct ElementOf<DataType::complex64> : Element<Complex<float>> {};
template <>
struct ElementOf<DataType::complex128> : Element<Complex<double>> {};
template <>
struct ElementOf<DataType::boolean> : Element<uint8_t> {};

}  // namespace weft
