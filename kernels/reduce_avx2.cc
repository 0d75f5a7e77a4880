// The kernels for AVX2 and F16C.
#include <immintrin.h>

#include "kernels/copy_loop.h"
#include "kernels/isa.h"
#include "kernels/reduce_loop.h"

namespace weft {
namespace {

struct Avx2Kit : GenericKit<Avx2Kit, 32> {
  // minps gives its second operand where the two are equal or one is NaN: the `or` of both orders
  // keeps a minus sign and a NaN. max(a, b) is -min(-a, -b).
  static WEFT_HD Floats min(Floats a, Floats b) {
    return _mm256_or_ps(_mm256_min_ps(a, b), _mm256_min_ps(b, a));
  }
  static WEFT_HD Doubles min(Doubles a, Doubles b) {
    return _mm256_or_pd(_mm256_min_pd(a, b), _mm256_min_pd(b, a));
  }
  static WEFT_HD Floats max(Floats a, Floats b) { return -min(-a, -b); }
  static WEFT_HD Doubles max(Doubles a, Doubles b) { return -min(-a, -b); }

  static WEFT_HD LongWords multiply_halves(LongWords a, LongWords b) {
    return bit_cast<LongWords>(_mm256_mul_epu32(bit_cast<__m256i>(a), bit_cast<__m256i>(b)));
  }

  template <class V>
  static WEFT_HD void stream(void* to, V value) {
    if constexpr (sizeof(V) == 32) {
      _mm256_stream_si256(static_cast<__m256i*>(to), bit_cast<__m256i>(value));
    } else if constexpr (sizeof(V) == 16) {
      _mm_stream_si128(static_cast<__m128i*>(to), bit_cast<__m128i>(value));
    } else {
      static_assert(sizeof(V) == 8);
      _mm_stream_si64(static_cast<long long*>(to), bit_cast<long long>(value));
    }
  }
  static WEFT_HD void fence() { _mm_sfence(); }

  template <class Format>
  struct Codec;
};

template <>
struct Avx2Kit::Codec<Float16> {
  static constexpr int kParts = 1;
  using Stored = Vec<uint16_t, 16>;
  static WEFT_HD void unpack(Stored stored, Floats* parts) {
    parts[0] = _mm256_cvtph_ps(bit_cast<__m128i>(stored));
  }
  static WEFT_HD Stored pack(const Floats* parts) {
    const Floats value = canonical(parts[0], Words{} + kNan32);
    return bit_cast<Stored>(_mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
  }
};

template <>
struct Avx2Kit::Codec<BFloat16> : BFloat16Codec<Avx2Kit> {};

// Every value of an 8-bit format is a float16 (of e4m3: 2^-8 times the value is, with the same
// digits). Even and odd bytes become two vectors of float16, and each of them two of floats;
// packing goes the same way back, so that the order in between is of no account.
template <class Format>
struct Fp8Codec {
  static constexpr bool kE4M3 = std::is_same_v<Format, Fp8E4M3>;
  static constexpr int kParts = 4;
  using Floats = Avx2Kit::Floats;
  using Words = Avx2Kit::Words;
  using Shorts = Vec<uint16_t, 32>;
  using Stored = Vec<uint8_t, 32>;

  // The byte is the upper one of each 16 bits.
  static WEFT_HD Shorts to_half(Shorts byte) {
    if constexpr (kE4M3) {
      const Shorts magnitude = (byte & 0x7f00) >> 1;
      const Shorts nan = bit_cast<Shorts>(magnitude == 0x3f80) & 0x7e00;
      return (byte & 0x8000) | magnitude | nan;
    } else {
      return byte;
    }
  }
  static WEFT_HD void widen_halves(Shorts halves, Floats* parts) {
    const __m256i value = bit_cast<__m256i>(halves);
    parts[0] = _mm256_cvtph_ps(_mm256_castsi256_si128(value));
    parts[1] = _mm256_cvtph_ps(_mm256_extracti128_si256(value, 1));
  }
  static WEFT_HD void unpack_term(Stored stored, Floats* parts) {
    const Shorts pairs = bit_cast<Shorts>(stored);
    widen_halves(to_half(pairs << 8), parts);
    widen_halves(to_half(pairs & 0xff00), parts + 2);
  }
  static WEFT_HD void unpack(Stored stored, Floats* parts) {
    unpack_term(stored, parts);
    for (int i = 0; i < kParts; ++i) parts[i] = parts[i] / kFp8TermScale<Format>;
  }

  // Bytes in 16 bits each, in the order of widen_halves.
  static WEFT_HD Shorts narrow_pair(const Floats* parts) {
    return pack_words(narrow<Format, Floats, Words>(parts[0]),
                      narrow<Format, Floats, Words>(parts[1]));
  }
  static WEFT_HD Stored pack(const Floats* parts) {
    return bit_cast<Stored>(narrow_pair(parts) | (narrow_pair(parts + 2) << 8));
  }

  // As in reduce_avx512.cc.
  template <int kTerms>
  static WEFT_HD Stored pack_sum(const Floats* parts) {
    const Shorts a = to_halves<kTerms>(parts), b = to_halves<kTerms>(parts + 2);
    const Stored sign = bit_cast<Stored>((a >> 8) | (b & 0xff00));
    if constexpr (kE4M3) return round_pairs(sign, a + a, b + b);
    return round_pairs(sign, a & 0x7fff, b & 0x7fff);
  }
  static WEFT_HD Stored round_pairs(Stored sign, Shorts a, Shorts b) {
    return round_halves<Avx2Kit, Format>(sign, bit_cast<Stored>((a >> 8) | (b & 0xff00)),
                                         bit_cast<Stored>((a & 0xff) | (b << 8)));
  }
  template <int kTerms>
  static WEFT_HD Shorts to_halves(const Floats* parts) {
    constexpr int kRounding = kTerms == 2 ? _MM_FROUND_TO_NEAREST_INT : _MM_FROUND_TO_ZERO;
    const __m128i first = _mm256_cvtps_ph(parts[0], kRounding);
    const __m128i second = _mm256_cvtps_ph(parts[1], kRounding);
    const Shorts halves = bit_cast<Shorts>(_mm256_set_m128i(second, first));
    if constexpr (kTerms == 2) return halves;
    const Shorts rest =
        pack_words(bit_cast<Words>(parts[0]) & 0x1fff, bit_cast<Words>(parts[1]) & 0x1fff);
    return halves | min_of(rest, Shorts{} + uint16_t{1});
  }
  static WEFT_HD Shorts pack_words(Words a, Words b) {
    const __m256i packed = _mm256_packus_epi32(bit_cast<__m256i>(a), bit_cast<__m256i>(b));
    return bit_cast<Shorts>(_mm256_permute4x64_epi64(packed, _MM_SHUFFLE(3, 1, 2, 0)));
  }
};

template <>
struct Avx2Kit::Codec<Fp8E4M3> : Fp8Codec<Fp8E4M3> {};
template <>
struct Avx2Kit::Codec<Fp8E5M2> : Fp8Codec<Fp8E5M2> {};

}  // namespace

ReduceKernel avx2_kernel(ReduceOp op, DataType type) { return find_kernel<Avx2Kit>(op, type); }

CopyLoops avx2_copy_loops() { return copy_loops_of<Avx2Kit>(4096); }

}  // namespace weft
