// The number formats of kernels/number.h against NVIDIA's own definition of them: what the headers
// of CUDA compute on the host is what the conversion instructions that the kernels use do, but for
// the bits of a NaN.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "kernels/number.h"

namespace weft {
namespace {

uint32_t bits_of(__half value) { return __half_raw(value).x; }
uint32_t bits_of(__nv_bfloat16 value) { return __nv_bfloat16_raw(value).x; }

template <class Format>
uint32_t theirs(float value) {
  if constexpr (std::is_same_v<Format, Float16>) return bits_of(__float2half_rn(value));
  if constexpr (std::is_same_v<Format, BFloat16>) return bits_of(__float2bfloat16_rn(value));
  if constexpr (std::is_same_v<Format, Fp8E4M3>)
    return __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E4M3);
  if constexpr (std::is_same_v<Format, Fp8E5M2>)
    return __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E5M2);
}

template <class Format>
float widened_by_them(Format value) {
  if constexpr (std::is_same_v<Format, Float16>)
    return __half2float(__half(__half_raw{value.bits}));
  if constexpr (std::is_same_v<Format, BFloat16>)
    return __bfloat162float(__nv_bfloat16(__nv_bfloat16_raw{value.bits}));
  if constexpr (std::is_same_v<Format, Fp8E4M3>)
    return __half2float(__half(__nv_cvt_fp8_to_halfraw(value.bits, __NV_E4M3)));
  if constexpr (std::is_same_v<Format, Fp8E5M2>)
    return __half2float(__half(__nv_cvt_fp8_to_halfraw(value.bits, __NV_E5M2)));
}

template <class Format>
void expect_same_rounding(float value) {
  const uint32_t ours = from_float<Format>(value).bits;
  if (std::isnan(value))
    EXPECT_EQ(ours, Format::kNan);
  else
    ASSERT_EQ(ours, theirs<Format>(value)) << value;
}

template <class Format>
class Conversions : public testing::Test {};
using Formats = testing::Types<Float16, BFloat16, Fp8E4M3, Fp8E5M2>;
TYPED_TEST_SUITE(Conversions, Formats);

TYPED_TEST(Conversions, WidenAlike) {
  for (uint32_t i = 0; i < 1u << (8 * sizeof(TypeParam)); ++i) {
    const TypeParam value{static_cast<typename TypeParam::Bits>(i)};
    const float ours = to_float(value), them = widened_by_them(value);
    EXPECT_TRUE(std::isnan(ours) ? std::isnan(them) : std::memcmp(&ours, &them, 4) == 0) << i;
  }
}

// Every value of a float's upper 16 bits, with lower ones that are exact, next to it, and about
// halfway between two values of each format.
TYPED_TEST(Conversions, RoundAlike) {
  for (uint32_t high = 0; high < 1u << 16; ++high)
    for (uint32_t low :
         {0x0000u, 0x0001u, 0x0fffu, 0x1000u, 0x1001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu})
      ASSERT_NO_FATAL_FAILURE(expect_same_rounding<TypeParam>(bit_cast<float>(high << 16 | low)));
}

}  // namespace
}  // namespace weft
