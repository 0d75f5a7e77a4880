// The kernels for AVX-512 F, BW, DQ, VL and VBMI.
#include <immintrin.h>

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

template <>
struct Avx512Kit::Codec<BFloat16> : BFloat16Codec<Avx512Kit> {};

// Every value of an 8-bit format is a bfloat16: its two bytes, by magnitude.
struct Fp8Table {
  alignas(64) uint8_t low[128];
  alignas(64) uint8_t high[128];
};

template <class Format>
constexpr Fp8Table make_fp8_table() {
  Fp8Table table{};
  for (uint32_t i = 0; i < 128; ++i) {
    const uint32_t bits = bit_cast<uint32_t>(widen<Format, float, uint32_t>(i));
    table.low[i] = static_cast<uint8_t>(bits >> 16);
    table.high[i] = static_cast<uint8_t>(bits >> 24);
  }
  return table;
}

template <class Format>
constexpr Fp8Table kFp8Table = make_fp8_table<Format>();

// Unpacking the bytes of 128-bit lanes makes two vectors of bfloat16, and each of them two of
// floats; packing goes the same way back, so that the order in between is of no account.
template <class Format>
struct Fp8Codec {
  using Floats = Avx512Kit::Floats;
  using Words = Avx512Kit::Words;
  static constexpr int kParts = 4;
  using Stored = Vec<uint8_t, 64>;

  static WEFT_HD __m512i look_up(const uint8_t* table, __m512i index) {
    return _mm512_permutex2var_epi8(_mm512_load_si512(table), index, _mm512_load_si512(table + 64));
  }
  static WEFT_HD void unpack(Stored stored, Floats* parts) {
    const __m512i bytes = bit_cast<__m512i>(stored);
    const __m512i low = look_up(kFp8Table<Format>.low, bytes);
    const __m512i high =
        look_up(kFp8Table<Format>.high, bytes) | (bytes & _mm512_set1_epi8(char(0x80)));
    using Pair = BFloat16Codec<Avx512Kit>;
    Pair::unpack(bit_cast<Pair::Stored>(_mm512_unpacklo_epi8(low, high)), parts);
    Pair::unpack(bit_cast<Pair::Stored>(_mm512_unpackhi_epi8(low, high)), parts + 2);
  }
  static WEFT_HD __m512i pack_pair(const Floats* parts) {
    const Words even = narrow<Format, Floats, Words>(parts[0]);
    const Words odd = narrow<Format, Floats, Words>(parts[1]);
    return bit_cast<__m512i>(even | (odd << 16));
  }
  static WEFT_HD Stored pack(const Floats* parts) {
    return bit_cast<Stored>(_mm512_packus_epi16(pack_pair(parts), pack_pair(parts + 2)));
  }
};

template <>
struct Avx512Kit::Codec<Fp8E4M3> : Fp8Codec<Fp8E4M3> {};
template <>
struct Avx512Kit::Codec<Fp8E5M2> : Fp8Codec<Fp8E5M2> {};

}  // namespace

ReduceKernel avx512_kernel(ReduceOp op, DataType type) { return find_kernel<Avx512Kit>(op, type); }

}  // namespace weft
