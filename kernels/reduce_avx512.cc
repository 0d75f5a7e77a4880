// The kernels for AVX-512 F, BW, DQ, VL and VBMI.
#include <immintrin.h>

#include "kernels/copy_loop.h"
#include "kernels/isa.h"
#include "kernels/reduce_loop.h"

namespace weft {
namespace {

struct Avx512Kit : GenericKit<Avx512Kit, 64> {
  // As in reduce_avx2.cc.
  static WEFT_HD Floats min(Floats a, Floats b) {
    return _mm512_or_ps(_mm512_min_ps(a, b), _mm512_min_ps(b, a));
  }
  static WEFT_HD Doubles min(Doubles a, Doubles b) {
    return _mm512_or_pd(_mm512_min_pd(a, b), _mm512_min_pd(b, a));
  }
  static WEFT_HD Floats max(Floats a, Floats b) { return -min(-a, -b); }
  static WEFT_HD Doubles max(Doubles a, Doubles b) { return -min(-a, -b); }

  template <class V>
  static WEFT_HD V load_some(const void* from, size_t bytes) {
    const __m512i value = _mm512_maskz_loadu_epi8((uint64_t{1} << bytes) - 1, from);
    return GenericKit::load<V>(&value);
  }
  template <class V>
  static WEFT_HD void store_some(void* to, V value, size_t bytes) {
    __m512i wide{};
    std::memcpy(&wide, &value, sizeof(V));
    _mm512_mask_storeu_epi8(to, (uint64_t{1} << bytes) - 1, wide);
  }

  static WEFT_HD LongWords multiply_halves(LongWords a, LongWords b) {
    return bit_cast<LongWords>(_mm512_mul_epu32(bit_cast<__m512i>(a), bit_cast<__m512i>(b)));
  }

  template <class V>
  static WEFT_HD void stream(void* to, V value) {
    if constexpr (sizeof(V) == 64) {
      _mm512_stream_si512(static_cast<__m512i*>(to), bit_cast<__m512i>(value));
    } else if constexpr (sizeof(V) == 32) {
      _mm256_stream_si256(static_cast<__m256i*>(to), bit_cast<__m256i>(value));
    } else {
      static_assert(sizeof(V) == 16);
      _mm_stream_si128(static_cast<__m128i*>(to), bit_cast<__m128i>(value));
    }
  }
  static WEFT_HD void fence() { _mm_sfence(); }
  static WEFT_HD void claim(const char* line) { __builtin_prefetch(line, 1, 3); }

  template <class Format>
  struct Codec;
};

template <>
struct Avx512Kit::Codec<Float16> {
  static constexpr int kParts = 1;
  using Stored = Vec<uint16_t, 32>;
  static WEFT_HD void unpack(Stored stored, Floats* parts) {
    parts[0] = _mm512_cvtph_ps(bit_cast<__m256i>(stored));
  }
  static WEFT_HD Stored pack(const Floats* parts) {
    const Floats value = canonical(parts[0], Words{} + kNan32);
    return bit_cast<Stored>(_mm512_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
  }
};

// Two vectors of words to choose from.
struct WordOrder {
  alignas(64) uint16_t index[32];
};

// The upper (1) or lower (0) halves of the floats that unpacking made of the words of each 128
// bits.
constexpr WordOrder make_half_order(int upper) {
  WordOrder order{};
  for (int i = 0; i < 32; ++i)
    order.index[i] = static_cast<uint16_t>(2 * (i / 8 * 4 + i % 4) + i / 4 % 2 * 32 + upper);
  return order;
}

template <int kUpper>
constexpr WordOrder kHalfOrder = make_half_order(kUpper);

template <>
struct Avx512Kit::Codec<BFloat16> {
  static constexpr int kParts = 2;
  using Stored = Vec<uint16_t, 64>;
  static WEFT_HD void unpack(Stored stored, Floats* parts) {
    const __m512i zero{}, halves = bit_cast<__m512i>(stored);
    parts[0] = bit_cast<Floats>(_mm512_unpacklo_epi16(zero, halves));
    parts[1] = bit_cast<Floats>(_mm512_unpackhi_epi16(zero, halves));
  }
  template <int kUpper>
  static WEFT_HD Stored halves_of(const Floats* parts) {
    return bit_cast<Stored>(_mm512_permutex2var_epi16(bit_cast<__m512i>(parts[0]),
                                                      _mm512_load_si512(kHalfOrder<kUpper>.index),
                                                      bit_cast<__m512i>(parts[1])));
  }
  // REQUIRES: results of arithmetic, whose NaNs are quiet: the upper half tells them.
  static WEFT_HD Stored pack(const Floats* parts) {
    const Stored upper = halves_of<1>(parts), lower = halves_of<0>(parts);
    const Stored up = bit_cast<Stored>(lower > 0x8000 - (upper & 1));  // -1 where it does
    const Stored nan = Stored{} + static_cast<uint16_t>(BFloat16::kNan);
    return upper + upper > 2 * BFloat16::kOverflow ? nan : upper - up;
  }
};

// Every value of an 8-bit format is a bfloat16: its two bytes, by magnitude.
struct Fp8Table {
  alignas(64) uint8_t low[128];
  alignas(64) uint8_t high[128];
};

template <class Format>
constexpr Fp8Table make_fp8_table(float scale) {
  Fp8Table table{};
  for (uint32_t i = 0; i < 128; ++i) {
    const float value = widen<Format, float, uint32_t>(i);
    const uint32_t bits = bit_cast<uint32_t>(i < Format::kSpecial ? value * scale : value);
    table.low[i] = static_cast<uint8_t>(bits >> 16);
    table.high[i] = static_cast<uint8_t>(bits >> 24);
  }
  return table;
}

template <class Format>
constexpr Fp8Table kFp8Table = make_fp8_table<Format>(1.0f);
template <class Format>
constexpr Fp8Table kFp8Terms = make_fp8_table<Format>(kFp8TermScale<Format>);

// Where the bytes of the result are in two vectors of cut halves: their high bytes, or the low
// ones.
struct Fp8Order {
  alignas(64) uint8_t index[64];
};

constexpr Fp8Order make_fp8_order(int high) {
  Fp8Order order{};
  for (int i = 0; i < 64; ++i) {
    const int lane = i / 16, part = i / 4 % 4;
    order.index[i] = static_cast<uint8_t>(2 * (16 * part + 4 * lane + i % 4) + high);
  }
  return order;
}

template <int kHigh>
constexpr Fp8Order kFp8Order = make_fp8_order(kHigh);

constexpr WordOrder kEvenWords = [] {
  WordOrder order{};
  for (int i = 0; i < 32; ++i) order.index[i] = static_cast<uint16_t>(2 * i);
  return order;
}();

// Sixteen bytes of each lane of 128 bits become four floats of each of four vectors.
template <class Format>
struct Fp8Codec {
  static constexpr bool kE4M3 = std::is_same_v<Format, Fp8E4M3>;
  static constexpr int kParts = 4;
  using Floats = Avx512Kit::Floats;
  using Words = Avx512Kit::Words;
  using Stored = Vec<uint8_t, 64>;

  static WEFT_HD __m512i bytes_of(uint8_t value) { return _mm512_set1_epi8(char(value)); }

  static WEFT_HD __m512i look_up(const uint8_t* table, __m512i index) {
    return _mm512_permutex2var_epi8(_mm512_load_si512(table), index, _mm512_load_si512(table + 64));
  }
  static WEFT_HD void unpack(Stored stored, Floats* parts) {
    unpack(stored, kFp8Table<Format>, parts);
  }
  static WEFT_HD void unpack(Stored stored, const Fp8Table& table, Floats* parts) {
    const __m512i bytes = bit_cast<__m512i>(stored);
    const __m512i low = look_up(table.low, bytes);
    const __m512i high = look_up(table.high, bytes) | (bytes & bytes_of(0x80));
    using Pair = Avx512Kit::Codec<BFloat16>;
    Pair::unpack(bit_cast<Pair::Stored>(_mm512_unpacklo_epi8(low, high)), parts);
    Pair::unpack(bit_cast<Pair::Stored>(_mm512_unpackhi_epi8(low, high)), parts + 2);
  }
  static WEFT_HD Stored pack(const Floats* parts) {
    __m512i words[4];
    for (int i = 0; i < 4; ++i)
      words[i] = bit_cast<__m512i>(narrow<Format, Floats, Words>(parts[i]));
    const __m512i low = _mm512_packus_epi32(words[0], words[1]);
    return bit_cast<Stored>(_mm512_packus_epi16(low, _mm512_packus_epi32(words[2], words[3])));
  }

  static WEFT_HD void unpack_term(Stored stored, Floats* parts) {
    unpack(stored, kFp8Terms<Format>, parts);
  }
  // A sum of terms, by way of float16. What float16 has no digits for is cut off, and its last
  // digit set, far below the middle between two results. A subnormal loses nothing: it is a
  // multiple of the format's smallest value. Of two terms so far apart that their sum has too many
  // digits, the larger one is the result, however the sum is rounded in between.
  template <int kTerms>
  static WEFT_HD Stored pack_sum(const Floats* parts) {
    return narrow_halves(to_halves<kTerms>(parts), to_halves<kTerms>(parts + 2));
  }
  template <int kTerms>
  static WEFT_HD __m512i to_halves(const Floats* parts) {
    constexpr int kRounding = kTerms == 2 ? _MM_FROUND_TO_NEAREST_INT : _MM_FROUND_TO_ZERO;
    const __m256i first = _mm512_cvtps_ph(parts[0], kRounding | _MM_FROUND_NO_EXC);
    const __m256i second = _mm512_cvtps_ph(parts[1], kRounding | _MM_FROUND_NO_EXC);
    const __m512i halves = _mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1);
    if constexpr (kTerms == 2) return halves;
    const __m512i rest = even_words(bit_cast<__m512i>(parts[0]), bit_cast<__m512i>(parts[1])) &
                         _mm512_set1_epi16(0x1fff);
    return halves | _mm512_min_epu16(rest, _mm512_set1_epi16(1));
  }
  static WEFT_HD __m512i even_words(__m512i a, __m512i b) {
    return _mm512_permutex2var_epi16(a, _mm512_load_si512(kEvenWords.index), b);
  }

  template <int kHigh>
  static WEFT_HD __m512i gather(__m512i a, __m512i b) {
    return _mm512_permutex2var_epi8(a, _mm512_load_si512(kFp8Order<kHigh>.index), b);
  }

  static WEFT_HD Stored narrow_halves(__m512i a, __m512i b) {
    const __m512i signs = gather<1>(a, b);
    if constexpr (kE4M3) {  // whose exponent has a bit less
      a = _mm512_add_epi16(a, a);
      b = _mm512_add_epi16(b, b);
    }
    const __m512i high = kE4M3 ? gather<1>(a, b) : signs & bytes_of(0x7f);
    return round_halves<Avx512Kit, Format>(bit_cast<Stored>(signs), bit_cast<Stored>(high),
                                           bit_cast<Stored>(gather<0>(a, b)));
  }
};

template <>
struct Avx512Kit::Codec<Fp8E4M3> : Fp8Codec<Fp8E4M3> {};
template <>
struct Avx512Kit::Codec<Fp8E5M2> : Fp8Codec<Fp8E5M2> {};

}  // namespace

ReduceKernel avx512_kernel(ReduceOp op, DataType type) { return find_kernel<Avx512Kit>(op, type); }

CopyLoops avx512_copy_loops() { return copy_loops_of<Avx512Kit>(kLongCopy); }

}  // namespace weft
