// Sixteen bytes of elements as a thread folds them: the rules of kernels/element.h, with the
// hardware's conversions.
#pragma once

#include "kernels/cuda/machine.cuh"
#include "kernels/element.h"

namespace weft::device {

// Two floats as a word of 16-bit formats, or as the low half of one of 8-bit formats.
template <class Format>
__device__ __forceinline__ uint32_t pair_of(float low, float high) {
  if constexpr (std::is_same_v<Format, Fp8E4M3>) {
    return ptx::e4m3x2_of(low, high);
  } else if constexpr (std::is_same_v<Format, Fp8E5M2>) {
    return ptx::e5m2x2_of(low, high);
  } else {  // the hardware has NaNs of its own
    const uint32_t pair =
        std::is_same_v<Format, Float16> ? ptx::f16x2_of(low, high) : ptx::bf16x2_of(low, high);
    const uint32_t low_bits = low == low ? pair & 0xffffu : Format::kNan;
    const uint32_t high_bits = high == high ? pair >> 16 : Format::kNan;
    return low_bits | high_bits << 16;
  }
}

template <class Format>
__device__ __forceinline__ void floats_of(uint32_t pair, float* low, float* high) {
  if constexpr (std::is_same_v<Format, BFloat16>) {
    *low = to_float(BFloat16{static_cast<uint16_t>(pair)});
    *high = to_float(BFloat16{static_cast<uint16_t>(pair >> 16)});
  } else {
    uint32_t halves = pair;
    if constexpr (std::is_same_v<Format, Fp8E4M3>) halves = ptx::f16x2_of_e4m3x2(pair);
    if constexpr (std::is_same_v<Format, Fp8E5M2>) halves = ptx::f16x2_of_e5m2x2(pair);
    *low = ptx::float_of_f16(halves & 0xffffu);
    *high = ptx::float_of_f16(halves >> 16);
  }
}

template <class Op>
inline constexpr bool kOnBits =
    std::is_same_v<Op, BitAnd> || std::is_same_v<Op, BitOr> || std::is_same_v<Op, BitXor>;

template <class T, class Op>
struct Vector {
  using Rules = ElementRules<T>;
  using Element = typename Rules::Acc;
  static constexpr int kCount = sizeof(Vec16) / sizeof(T);
  static constexpr bool kNarrow = kIsSmallFloat<T>;
  // Vectors in flight, for each of two operands; more would not fit in the registers.
  static constexpr int kUnroll = (kNarrow && sizeof(T) == 1) || sizeof(T) >= 8 ? 3 : 4;

  struct Elements {
    Element at[kCount];
  };
  // Between folds: as stored, so that short integers do not take a register each.
  using Acc = std::conditional_t<kNarrow, Elements, Vec16>;

  static __device__ __forceinline__ Acc unpack(Vec16 stored) {
    if constexpr (!kNarrow) {
      return stored;
    } else {
      Acc acc;
      for (int i = 0; i < kPairs; ++i) {
        const uint64_t half = i < kPairs / 2 ? stored.low : stored.high;
        floats_of<T>(static_cast<uint32_t>(half >> shift(i)), &acc.at[2 * i], &acc.at[2 * i + 1]);
      }
      return acc;
    }
  }

  static __device__ __forceinline__ Vec16 pack(const Acc& acc) {
    if constexpr (!kNarrow) {
      return on_elements([](Element a) { return Rules::pack(a); }, acc);
    } else {
      Vec16 stored{0, 0};
      for (int i = 0; i < kPairs; ++i) {
        const uint64_t pair = pair_of<T>(acc.at[2 * i], acc.at[2 * i + 1]);
        (i < kPairs / 2 ? stored.low : stored.high) |= pair << shift(i);
      }
      return stored;
    }
  }

  static __device__ __forceinline__ Acc fold(const Acc& a, const Acc& b) {
    if constexpr (kOnBits<Op>) {
      return {Op::apply(a.low, b.low), Op::apply(a.high, b.high)};
    } else {
      return on_elements([](Element x, Element y) { return Op::apply(x, y); }, a, b);
    }
  }

  static __device__ __forceinline__ Acc scale(const Acc& acc, Element scalar) {
    if constexpr (kNarrow) {  // rounded to the format, as if it had been stored
      return unpack(pack(on_elements([=](Element a) { return a * scalar; }, acc)));
    } else {
      return on_elements([=](Element a) { return Rules::scale(a, scalar); }, acc);
    }
  }

  static __device__ __forceinline__ Acc divide(const Acc& acc, int64_t divisor) {
    return on_elements([=](Element a) { return Rules::divide(a, divisor); }, acc);
  }

 private:
  static constexpr int kPairs = kCount / 2;
  // Of a pair within its 64 bits.
  static __device__ constexpr int shift(int pair) {
    return pair % (kPairs / 2) * static_cast<int>(16 * sizeof(T));
  }

  template <class Function, class... Accs>
  static __device__ __forceinline__ Acc on_elements(Function function, const Accs&... accs) {
    return on_lists(function, bit_cast<Elements>(accs)...);
  }
  template <class Function, class... Lists>
  static __device__ __forceinline__ Acc on_lists(Function function, const Lists&... lists) {
    Elements result;
    for (int i = 0; i < kCount; ++i) result.at[i] = function(lists.at[i]...);
    return bit_cast<Acc>(result);
  }
};

}  // namespace weft::device
