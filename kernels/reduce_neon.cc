// The kernels for 64-bit ARM, whose baseline has all that is used here.
#include <arm_neon.h>

#include "kernels/isa.h"
#include "kernels/reduce_loop.h"

namespace weft {
namespace {

struct NeonKit : GenericKit<NeonKit, 16> {
  // fmin and fmax keep NaN and order the zeros.
  static WEFT_HD Floats min(Floats a, Floats b) {
    return bit_cast<Floats>(vminq_f32(bit_cast<float32x4_t>(a), bit_cast<float32x4_t>(b)));
  }
  static WEFT_HD Floats max(Floats a, Floats b) {
    return bit_cast<Floats>(vmaxq_f32(bit_cast<float32x4_t>(a), bit_cast<float32x4_t>(b)));
  }
  static WEFT_HD Doubles min(Doubles a, Doubles b) {
    return bit_cast<Doubles>(vminq_f64(bit_cast<float64x2_t>(a), bit_cast<float64x2_t>(b)));
  }
  static WEFT_HD Doubles max(Doubles a, Doubles b) {
    return bit_cast<Doubles>(vmaxq_f64(bit_cast<float64x2_t>(a), bit_cast<float64x2_t>(b)));
  }

  template <class Format>
  struct Codec : GenericKit::Codec<Format> {};
};

template <>
struct NeonKit::Codec<Float16> {
  static constexpr int kParts = 2;
  using Stored = Vec<uint16_t, 16>;
  static WEFT_HD void unpack(Stored stored, Floats* parts) {
    const float16x8_t halves = bit_cast<float16x8_t>(stored);
    parts[0] = bit_cast<Floats>(vcvt_f32_f16(vget_low_f16(halves)));
    parts[1] = bit_cast<Floats>(vcvt_high_f32_f16(halves));
  }
  static WEFT_HD float16x4_t narrow_part(Floats part) {
    return vcvt_f16_f32(bit_cast<float32x4_t>(canonical(part, Words{} + kNan32)));
  }
  static WEFT_HD Stored pack(const Floats* parts) {
    return bit_cast<Stored>(vcombine_f16(narrow_part(parts[0]), narrow_part(parts[1])));
  }
};

template <>
struct NeonKit::Codec<BFloat16> : BFloat16Codec<NeonKit> {};

// Sixteen bytes at a time, each of which is a lane's word after two widenings.
template <class Format>
struct Fp8Codec {
  using Floats = NeonKit::Floats;
  using Words = NeonKit::Words;
  static constexpr int kParts = 4;
  using Stored = Vec<uint8_t, 16>;
  static WEFT_HD Floats widen_part(uint16x4_t words) {
    return widen<Format, Floats, Words>(bit_cast<Words>(vmovl_u16(words)));
  }
  static WEFT_HD uint16x4_t narrow_part(Floats part) {
    return vmovn_u32(bit_cast<uint32x4_t>(narrow<Format, Floats, Words>(part)));
  }
  static WEFT_HD void unpack(Stored stored, Floats* parts) {
    const uint8x16_t bytes = bit_cast<uint8x16_t>(stored);
    const uint16x8_t low = vmovl_u8(vget_low_u8(bytes)), high = vmovl_high_u8(bytes);
    parts[0] = widen_part(vget_low_u16(low));
    parts[1] = widen_part(vget_high_u16(low));
    parts[2] = widen_part(vget_low_u16(high));
    parts[3] = widen_part(vget_high_u16(high));
  }
  static WEFT_HD Stored pack(const Floats* parts) {
    const uint16x8_t low = vcombine_u16(narrow_part(parts[0]), narrow_part(parts[1]));
    const uint16x8_t high = vcombine_u16(narrow_part(parts[2]), narrow_part(parts[3]));
    return bit_cast<Stored>(vcombine_u8(vmovn_u16(low), vmovn_u16(high)));
  }
};

template <>
struct NeonKit::Codec<Fp8E4M3> : Fp8Codec<Fp8E4M3> {};
template <>
struct NeonKit::Codec<Fp8E5M2> : Fp8Codec<Fp8E5M2> {};

}  // namespace

ReduceKernel neon_kernel(ReduceOp op, DataType type) { return find_kernel<NeonKit>(op, type); }

}  // namespace weft
