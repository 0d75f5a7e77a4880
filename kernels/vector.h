// What the reduction loops need of an instruction set: a Kit. GenericKit does it all with compiler
// vectors; an instruction set's own kit derives from it and replaces what it has instructions for.
//
// Each kit is a type of an unnamed namespace in a file compiled for its instruction set. Whatever
// is instantiated for it therefore stays in that file, and no code of a wider instruction set can
// be linked into a narrower one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "kernels/number.h"
#include "kernels/ops.h"

namespace weft {

template <class T, size_t kBytes>
struct VectorOf {
  typedef T type __attribute__((vector_size(kBytes)));
};
template <class T, size_t kBytes>
using Vec = typename VectorOf<T, kBytes>::type;

template <class Self, size_t kVectorBytes>
struct GenericKit {
  static constexpr size_t kBytes = kVectorBytes;  // of a vector of accumulators
  static constexpr int kUnroll = 4;               // vectors in flight

  using Floats = Vec<float, kBytes>;
  using Doubles = Vec<double, kBytes>;
  using Words = Vec<uint32_t, kBytes>;
  using LongWords = Vec<uint64_t, kBytes>;

  template <class V>
  static WEFT_HD V load(const void* from) {
    V value;
    std::memcpy(&value, from, sizeof(V));
    return value;
  }
  template <class V>
  static WEFT_HD void store(void* to, V value) {
    std::memcpy(to, &value, sizeof(V));
  }

  // The first `bytes` bytes of a vector, fewer than a whole one.
  template <class V>
  static WEFT_HD V load_some(const void* from, size_t bytes) {
    V value{};
    std::memcpy(&value, from, bytes);
    return value;
  }
  template <class V>
  static WEFT_HD void store_some(void* to, V value, size_t bytes) {
    std::memcpy(to, &value, bytes);
  }

  // Past the caches, REQUIRES: `to` aligned to sizeof(V). fence() follows the last one.
  template <class V>
  static WEFT_HD void stream(void* to, V value) {
    Self::store(to, value);
  }
  static WEFT_HD void fence() {}

  // The line that holds this byte is written soon: other cores may give it up (claim.h). Nothing
  // where it was not found to pay.
  static WEFT_HD void claim(const char*) {}

  // As min_of_floats and max_of_floats, but any NaN may stand for the canonical one.
  static WEFT_HD Floats min(Floats a, Floats b) { return min_of_floats<Words>(a, b); }
  static WEFT_HD Floats max(Floats a, Floats b) { return max_of_floats<Words>(a, b); }
  static WEFT_HD Doubles min(Doubles a, Doubles b) { return min_of_floats<LongWords>(a, b); }
  static WEFT_HD Doubles max(Doubles a, Doubles b) { return max_of_floats<LongWords>(a, b); }

  // Products of lanes that are less than 2^32.
  static WEFT_HD LongWords multiply_halves(LongWords a, LongWords b) { return a * b; }

  // Between the stored form of a narrow format and kParts vectors of floats.
  template <class Format>
  struct Codec {
    static constexpr int kParts = 1;
    using Stored = Vec<typename Format::Bits, kBytes / sizeof(float) * sizeof(Format)>;
    static WEFT_HD void unpack(Stored stored, Floats* parts) {
      parts[0] = widen<Format, Floats, Words>(__builtin_convertvector(stored, Words));
    }
    static WEFT_HD Stored pack(const Floats* parts) {
      return __builtin_convertvector((narrow<Format, Floats, Words>(parts[0])), Stored);
    }
  };
};

// Two words of bfloat16 in each word of 32 bits: a float is its bits shifted up. REQUIRES: little
// endian.
template <class Kit>
struct BFloat16Codec {
  static constexpr int kParts = 2;
  using Floats = typename Kit::Floats;
  using Words = typename Kit::Words;
  using Stored = Vec<uint16_t, Kit::kBytes>;
  static WEFT_HD void unpack(Stored stored, Floats* parts) {
    const Words words = bit_cast<Words>(stored);
    parts[0] = bit_cast<Floats>(words << 16);
    parts[1] = bit_cast<Floats>(words & 0xffff0000u);
  }
  static WEFT_HD Stored pack(const Floats* parts) {
    const Words low = narrow<BFloat16, Floats, Words>(parts[0]);
    const Words high = narrow<BFloat16, Floats, Words>(parts[1]);
    return bit_cast<Stored>(low | (high << 16));
  }
};

// Float16 has the exponents of e5m2, and those of e4m3 when its values are scaled by this.
template <class Format>
inline constexpr float kFp8TermScale = std::is_same_v<Format, Fp8E4M3> ? 0x1p-8f : 1.0f;

// What is left of rounding a value of e5m2 or e4m3 that came by way of float16: its sign, and its
// magnitude in float16 (of e4m3: of 2^-8 times the value, shifted up by one) as two vectors of
// bytes.
template <class Kit, class Format>
WEFT_HD Vec<uint8_t, Kit::kBytes> round_halves(Vec<uint8_t, Kit::kBytes> sign,
                                               Vec<uint8_t, Kit::kBytes> high,
                                               Vec<uint8_t, Kit::kBytes> low) {
  using Vector = Vec<uint8_t, Kit::kBytes>;
  constexpr uint8_t kInfinity = std::is_same_v<Format, Fp8E4M3> ? 0xf8 : 0x7c;
  const Vector up = bit_cast<Vector>(low > 0x80 - (high & 1));
  const Vector finite = min_of(high - up, Vector{} + static_cast<uint8_t>(Format::kOverflow));
  return high > kInfinity ? Vector{} + static_cast<uint8_t>(Format::kNan) : finite | (sign & 0x80);
}

// Unsigned division by a number that is known before the loop, exact for every dividend: Granlund
// and Montgomery, "Division by Invariant Integers using Multiplication", figure 4.1.
template <class U>
struct Reciprocal {
  U factor = 0;  // where the divisor exceeds every dividend, the quotient is 0
  int shift = 8 * sizeof(U) - 1;

  WEFT_HD explicit Reciprocal(int64_t divisor) {
    __extension__ using Wide = unsigned __int128;
    constexpr int kBits = 8 * sizeof(U);
    const Wide by = static_cast<Wide>(divisor);
    if ((by >> kBits) != 0) return;
    shift = 0;
    while ((Wide{2} << shift) < by) ++shift;
    factor = static_cast<U>((((Wide{2} << shift) - by) << kBits) / by + 1);
  }
};

template <class Kit, class U>
struct Divider {
  static constexpr int kBits = 8 * sizeof(U);
  using Vector = Vec<U, Kit::kBytes>;
  using LongWords = typename Kit::LongWords;

  static WEFT_HD Vector divide(Vector value, const Reciprocal<U>& by) {
    if constexpr (kBits == 64) {
      return quotient(value, multiply_high(value, by.factor), by.shift);
    } else {  // in lanes of twice the width
      using WideU = std::conditional_t<kBits == 8, uint16_t,
                                       std::conditional_t<kBits == 16, uint32_t, uint64_t>>;
      using Wide = Vec<WideU, Kit::kBytes>;
      constexpr WideU kMask = static_cast<U>(-1);
      const Wide lanes = bit_cast<Wide>(value);
      return bit_cast<Vector>(divide_halves(lanes & kMask, by) |
                              (divide_halves(lanes >> kBits, by) << kBits));
    }
  }

 private:
  template <class V>
  static WEFT_HD V quotient(V value, V product, int shift) {
    return (product + ((value - product) >> 1)) >> shift;
  }
  template <class Wide>
  static WEFT_HD Wide divide_halves(Wide value, const Reciprocal<U>& by) {
    const Wide factor = Wide{} + by.factor;
    if constexpr (kBits == 32) {
      return quotient(value, Kit::multiply_halves(value, factor) >> kBits, by.shift);
    } else {
      return quotient(value, (value * factor) >> kBits, by.shift);
    }
  }
  // The upper 64 bits of the product.
  static WEFT_HD LongWords multiply_high(LongWords a, uint64_t b) {
    constexpr uint64_t kLow = 0xffffffffu;
    const LongWords b_low = LongWords{} + (b & kLow), b_high = LongWords{} + (b >> 32);
    const LongWords a_low = a & kLow, a_high = a >> 32;
    const LongWords first =
        Kit::multiply_halves(a_high, b_low) + (Kit::multiply_halves(a_low, b_low) >> 32);
    const LongWords second = Kit::multiply_halves(a_low, b_high) + (first & kLow);
    return Kit::multiply_halves(a_high, b_high) + (first >> 32) + (second >> 32);
  }
};

// Lanes<Kit, T>: one vector of elements of T. Stored is as in memory, Acc as folded.
template <class Kit, class T>
struct Lanes {  // integers, float and double
  static constexpr size_t kCount = Kit::kBytes / sizeof(T);
  static constexpr int kUnroll = Kit::kUnroll;
  static constexpr bool kInteger = std::is_integral_v<T>;
  using Bits =
      std::conditional_t<sizeof(T) == 8, uint64_t, std::conditional_t<sizeof(T) == 4, uint32_t, T>>;
  using Typed = Vec<T, Kit::kBytes>;
  using Element =
      typename std::conditional_t<kInteger, std::make_unsigned<T>, std::type_identity<Bits>>::type;
  using Unsigned = Vec<Element, Kit::kBytes>;
  using Divisor = std::conditional_t<kInteger, Reciprocal<Element>, T>;
  using Acc = std::conditional_t<kInteger, Unsigned, Typed>;
  using Stored = Acc;

  static WEFT_HD Acc unpack(Stored stored) { return stored; }
  static WEFT_HD Acc unpack_term(Stored stored) { return stored; }
  template <int kTerms>
  static WEFT_HD Stored pack_sum(Acc acc) {
    return pack(acc);
  }
  static WEFT_HD Stored pack(Acc acc) {
    if constexpr (kInteger) {
      return acc;
    } else {
      constexpr Bits kNan = sizeof(T) == 4 ? static_cast<Bits>(kNan32) : static_cast<Bits>(kNan64);
      return canonical(acc, Unsigned{} + kNan);
    }
  }

  template <class Op>
  static WEFT_HD Acc fold(Acc a, Acc b) {
    constexpr bool kOrdered = std::is_same_v<Op, Min> || std::is_same_v<Op, Max>;
    if constexpr (kInteger && kOrdered) {
      return bit_cast<Acc>(Op::apply(bit_cast<Typed>(a), bit_cast<Typed>(b)));
    } else if constexpr (std::is_same_v<Op, Min>) {
      return Kit::min(a, b);
    } else if constexpr (std::is_same_v<Op, Max>) {
      return Kit::max(a, b);
    } else {
      return Op::apply(a, b);
    }
  }

  static WEFT_HD Acc splat(const void* scalar) {
    Element value;  // as bits: +0.0 and -0.0 would be +0.0
    std::memcpy(&value, scalar, sizeof(value));
    return bit_cast<Acc>(Unsigned{} + value);
  }
  static WEFT_HD Acc scale(Acc acc, Acc scalar) { return acc * scalar; }

  // Integers are rounded toward zero.
  static WEFT_HD Acc divide(Acc acc, const Divisor& divisor) {
    if constexpr (!kInteger) {
      return acc / (Acc{} + divisor);
    } else if constexpr (std::is_unsigned_v<T>) {
      return Divider<Kit, T>::divide(acc, divisor);
    } else {
      const auto negative = bit_cast<Typed>(acc) < 0;
      const Acc quotient = Divider<Kit, Element>::divide(negative ? -acc : acc, divisor);
      return negative ? -quotient : quotient;
    }
  }
};

// The narrow formats: several vectors of floats.
template <class Kit, int E, int M, uint32_t N, uint32_t O, class B>
struct Lanes<Kit, SmallFloat<E, M, N, O, B>> {
  using Format = SmallFloat<E, M, N, O, B>;
  using Codec = typename Kit::template Codec<Format>;
  using Float = Lanes<Kit, float>;
  using Divisor = typename Float::Divisor;
  static constexpr int kParts = Codec::kParts;
  static constexpr size_t kCount = kParts * Kit::kBytes / sizeof(float);
  static constexpr int kUnroll = 2 * kParts < Kit::kUnroll ? Kit::kUnroll / kParts : 2;
  struct Acc {
    typename Kit::Floats parts[kParts];
  };
  using Stored = typename Codec::Stored;

  static WEFT_HD Acc unpack(Stored stored) {
    Acc acc;
    Codec::unpack(stored, acc.parts);
    return acc;
  }
  static WEFT_HD Stored pack(const Acc& acc) { return Codec::pack(acc.parts); }
  // The same for plain sums, which a codec may keep in another scale; kTerms: how many, or 0.
  static constexpr bool kHasTerms = requires(Stored stored, Acc acc) {
    Codec::unpack_term(stored, acc.parts);
  };
  static WEFT_HD Acc unpack_term(Stored stored) {
    if constexpr (kHasTerms) {
      Acc acc;
      Codec::unpack_term(stored, acc.parts);
      return acc;
    } else {
      return unpack(stored);
    }
  }
  template <int kTerms>
  static WEFT_HD Stored pack_sum(const Acc& acc) {
    if constexpr (kHasTerms) {
      return Codec::template pack_sum<kTerms>(acc.parts);
    } else {
      return pack(acc);
    }
  }

  template <class Op>
  static WEFT_HD Acc fold(Acc a, const Acc& b) {
    for (int i = 0; i < kParts; ++i) a.parts[i] = Float::template fold<Op>(a.parts[i], b.parts[i]);
    return a;
  }

  static WEFT_HD Acc splat(const void* scalar) {
    Format value;
    std::memcpy(&value, scalar, sizeof(value));
    Acc acc;
    const auto bits = typename Kit::Words{} + bit_cast<uint32_t>(to_float(value));
    for (int i = 0; i < kParts; ++i) acc.parts[i] = bit_cast<typename Kit::Floats>(bits);
    return acc;
  }
  // The product is rounded to the format, as if it had been stored.
  static WEFT_HD Acc scale(Acc acc, const Acc& scalar) {
    for (int i = 0; i < kParts; ++i) acc.parts[i] = acc.parts[i] * scalar.parts[i];
    return unpack(pack(acc));
  }
  static WEFT_HD Acc divide(Acc acc, Divisor divisor) {
    for (int i = 0; i < kParts; ++i) acc.parts[i] = Float::divide(acc.parts[i], divisor);
    return acc;
  }
};

// The narrow formats for Min and Max, which need no floats: a key is an integer that orders as the
// value does. NaNs are moved from both ends of the order to the one that wins.
template <class Kit, class Format, bool kMin>
struct KeyLanes {
  using Bits = typename Format::Bits;
  using Acc = Vec<std::make_signed_t<Bits>, Kit::kBytes>;
  using Stored = Acc;
  using Divisor = float;  // of no use
  static constexpr size_t kCount = Kit::kBytes / sizeof(Bits);
  static constexpr int kUnroll = Kit::kUnroll;

  static constexpr int kMost = static_cast<int>(Format::kMagnitude);
  static constexpr int kNans = kMost - static_cast<int>(Format::kSpecial) + !Format::kInfinity;
  static constexpr int kShift = kMin ? kNans : -kNans;
  static constexpr int kLargest = static_cast<int>(Format::kOverflow);
  static constexpr bool kSaturates = kLargest < static_cast<int>(Format::kSpecial);

  static WEFT_HD Acc all(int value) {
    return Acc{} + static_cast<std::make_signed_t<Bits>>(static_cast<Bits>(value));
  }
  // Sign and magnitude to a key or back.
  static WEFT_HD Acc flip(Acc value) { return value ^ ((value < 0) & all(kMost)); }

  static WEFT_HD Acc unpack(Stored stored) { return wrapping_add(flip(stored), all(kShift)); }
  static WEFT_HD Stored pack(Acc acc) {
    Acc key = wrapping_add(acc, all(-kShift));
    if constexpr (kSaturates) key = max_of(min_of(key, all(kLargest)), all(-kLargest - 1));
    const auto nan = kMin ? acc < all(2 * kNans - kMost - 1) : acc > all(kMost - 2 * kNans);
    return nan ? all(Format::kNan) : flip(key);
  }
  static WEFT_HD Acc wrapping_add(Acc a, Acc b) {
    using Unsigned = Vec<Bits, Kit::kBytes>;
    return bit_cast<Acc>(bit_cast<Unsigned>(a) + bit_cast<Unsigned>(b));
  }

  template <class Op>
  static WEFT_HD Acc fold(Acc a, Acc b) {
    return Op::apply(a, b);
  }
};

// Complex numbers: real and imaginary parts in turn.
template <class Kit, class T>
struct Lanes<Kit, Complex<T>> : Lanes<Kit, T> {
  using Parts = Lanes<Kit, T>;
  using Acc = typename Parts::Acc;
  static constexpr size_t kCount = Parts::kCount / 2;

  // Lanes 0 0 2 2 ..., 1 1 3 3 ... and 1 0 3 2 ...
  template <int kFirst, int kSecond, size_t... k>
  static WEFT_HD Acc shuffle(Acc a, std::index_sequence<k...>) {
    return __builtin_shufflevector(a, a, (k % 2 == 0 ? int(k) + kFirst : int(k) - 1 + kSecond)...);
  }
  template <int kFirst, int kSecond>
  static WEFT_HD Acc shuffle(Acc a) {
    return shuffle<kFirst, kSecond>(a, std::make_index_sequence<Parts::kCount>());
  }
  template <size_t... k>
  static WEFT_HD typename Parts::Unsigned minus_signs(std::index_sequence<k...>) {
    using Bits = typename Parts::Bits;
    constexpr Bits kSign = Bits{1} << (8 * sizeof(Bits) - 1);
    return typename Parts::Unsigned{(k % 2 == 0 ? kSign : Bits{0})...};
  }

  template <class Op>
  static WEFT_HD Acc fold(Acc a, Acc b) {
    if constexpr (std::is_same_v<Op, Prod>) {
      return scale(a, b);
    } else {
      return Parts::template fold<Op>(a, b);
    }
  }
  static WEFT_HD Acc scale(Acc a, Acc b) {
    const auto signs = minus_signs(std::make_index_sequence<Parts::kCount>());
    const Acc real = shuffle<0, 0>(a) * b;                      // re*re, re*im
    const Acc imaginary = shuffle<1, 1>(a) * shuffle<1, 0>(b);  // im*im, im*re
    return real + bit_cast<Acc>(bit_cast<typename Parts::Unsigned>(imaginary) ^ signs);
  }
  static WEFT_HD Acc splat(const void* scalar) {
    Acc acc;
    for (size_t i = 0; i < kCount; ++i)
      std::memcpy(reinterpret_cast<char*>(&acc) + i * sizeof(Complex<T>), scalar,
                  sizeof(Complex<T>));
    return acc;
  }
};

// The lanes that Op folds on T.
template <class Kit, class T, class Op>
struct LanesFor : Lanes<Kit, T> {};
template <class Kit, int E, int M, uint32_t N, uint32_t O, class B>
struct LanesFor<Kit, SmallFloat<E, M, N, O, B>, Min>
    : KeyLanes<Kit, SmallFloat<E, M, N, O, B>, true> {};
template <class Kit, int E, int M, uint32_t N, uint32_t O, class B>
struct LanesFor<Kit, SmallFloat<E, M, N, O, B>, Max>
    : KeyLanes<Kit, SmallFloat<E, M, N, O, B>, false> {};

}  // namespace weft
