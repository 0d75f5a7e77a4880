#include "kernels/number.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "kernels/ops.h"
#include "tests/kernels/oracle.h"

namespace weft {
namespace {

template <DataType kType>
struct Case {
  static constexpr DataType type = kType;
  using Number = typename ElementOf<kType>::type;
};

template <class C>
class SmallFloatTest : public testing::Test {
 protected:
  using Number = typename C::Number;
  using Bits = typename Number::Bits;
  const oracle::Format format = oracle::format_of(C::type);
  const uint32_t patterns = 1u << (8 * sizeof(Number));

  static uint32_t convert(float value) { return from_float<Number>(value).bits; }
  // The float, and its neighbours on both sides.
  void check_around(float value) const {
    const float infinity = std::numeric_limits<float>::infinity();
    for (float x : {value, std::nextafter(value, infinity), std::nextafter(value, -infinity)})
      ASSERT_EQ(convert(x), oracle::encode(format, x)) << "for " << std::hexfloat << x;
  }
};

using SmallFloats = testing::Types<Case<DataType::float16>, Case<DataType::bfloat16>,
                                   Case<DataType::fp8_e4m3>, Case<DataType::fp8_e5m2>>;
TYPED_TEST_SUITE(SmallFloatTest, SmallFloats);

TYPED_TEST(SmallFloatTest, EveryPatternWidensExactly) {
  using N = typename TypeParam::Number;
  for (uint32_t bits = 0; bits < this->patterns; ++bits) {
    const float got = to_float(N{static_cast<typename N::Bits>(bits)});
    const float want = static_cast<float>(oracle::decode(this->format, bits));
    if (std::isnan(want)) {
      ASSERT_TRUE(std::isnan(got)) << bits;
    } else {
      ASSERT_EQ(bit_cast<uint32_t>(got), bit_cast<uint32_t>(want)) << bits;
    }
  }
}

TYPED_TEST(SmallFloatTest, EveryPatternSurvivesTheRoundTrip) {
  using N = typename TypeParam::Number;
  for (uint32_t bits = 0; bits < this->patterns; ++bits) {
    const double value = oracle::decode(this->format, bits);
    const uint32_t got = this->convert(to_float(N{static_cast<typename N::Bits>(bits)}));
    const bool kept = std::isfinite(value) || (std::isinf(value) && !this->format.saturates);
    ASSERT_EQ(got, kept ? bits : oracle::encode(this->format, value)) << bits;
  }
}

TYPED_TEST(SmallFloatTest, RoundsToNearestEvenAroundEveryValueAndMiddle) {
  for (uint32_t bits = 0; bits < this->format.largest(); ++bits) {
    const double low = oracle::decode(this->format, bits);
    const double high = oracle::decode(this->format, bits + 1);
    for (double value : {low, (low + high) / 2, high}) {
      this->check_around(static_cast<float>(value));
      this->check_around(static_cast<float>(-value));
      if (this->HasFatalFailure()) return;
    }
  }
}

TYPED_TEST(SmallFloatTest, RoundsArbitraryFloats) {
  std::mt19937 random(7);
  for (int i = 0; i < 300'000; ++i) {
    const float value = bit_cast<float>(static_cast<uint32_t>(random()));
    ASSERT_EQ(this->convert(value), oracle::encode(this->format, value)) << value;
  }
}

TYPED_TEST(SmallFloatTest, OverflowsInfinitiesAndNaNs) {
  const float infinity = std::numeric_limits<float>::infinity();
  const double largest = oracle::decode(this->format, this->format.largest());
  const uint32_t overflow = this->format.largest() + (this->format.saturates ? 0 : 1);
  for (float value : {infinity, std::numeric_limits<float>::max()}) {
    EXPECT_EQ(this->convert(value), overflow);
    EXPECT_EQ(this->convert(-value), overflow | this->format.sign());
  }
  this->check_around(static_cast<float>(largest));
  const double last = oracle::decode(this->format, this->format.largest() - 1);
  const double edge = largest + (largest - last) / 2;  // halfway to the value that would follow
  this->check_around(static_cast<float>(edge));
  for (uint32_t nan : {0x7f800001u, 0x7fc00000u, 0xffc00000u, 0xffffffffu, 0x7fffffffu})
    EXPECT_EQ(this->convert(bit_cast<float>(nan)), this->format.nan);
}

TEST(NumberTest, WhatTheFormatsAreKnownFor) {
  EXPECT_EQ(to_float(Float16{0x7bff}), 65504.0f);
  EXPECT_EQ(to_float(Float16{0x0001}), 0x1p-24f);
  EXPECT_EQ(to_float(BFloat16{0x3f80}), 1.0f);
  EXPECT_EQ(to_float(Fp8E4M3{0x7e}), 448.0f);
  EXPECT_EQ(to_float(Fp8E4M3{0x01}), 0x1p-9f);
  EXPECT_EQ(to_float(Fp8E5M2{0x7b}), 57344.0f);
  EXPECT_EQ(to_float(Fp8E5M2{0x01}), 0x1p-16f);
  EXPECT_TRUE(std::isnan(to_float(Fp8E4M3{0xff})));
  EXPECT_EQ(from_float<Fp8E4M3>(1e9f).bits, 0x7e);
  EXPECT_EQ(from_float<Fp8E5M2>(-1e9f).bits, 0xfb);
  EXPECT_EQ(from_float<Float16>(65520.0f).bits, 0x7c00);
  EXPECT_EQ(from_float<Float16>(65519.0f).bits, 0x7bff);
}

TEST(NumberTest, ConversionsAreConstantExpressions) {
  static_assert(to_float(Float16{0x3c00}) == 1.0f);
  static_assert(from_float<BFloat16>(1.0f).bits == 0x3f80);
}

TEST(OpsTest, IntegersWrap) {
  EXPECT_EQ((Sum::apply<uint8_t>(200, 100)), 44);
  EXPECT_EQ((Prod::apply<uint16_t>(0xffff, 0xffff)), 1);
  EXPECT_EQ((Sum::apply<int32_t>(std::numeric_limits<int32_t>::max(), 1)),
            std::numeric_limits<int32_t>::min());
  EXPECT_EQ((Prod::apply<int64_t>(std::numeric_limits<int64_t>::max(), 2)), -2);
}

template <class F>
void check_min_max() {
  const F nan = std::numeric_limits<F>::quiet_NaN();
  const F infinity = std::numeric_limits<F>::infinity();
  EXPECT_TRUE(std::signbit(Min::apply(F(0), F(-0.0))));
  EXPECT_TRUE(std::signbit(Min::apply(F(-0.0), F(0))));
  EXPECT_FALSE(std::signbit(Max::apply(F(0), F(-0.0))));
  EXPECT_FALSE(std::signbit(Max::apply(F(-0.0), F(0))));
  EXPECT_EQ(Min::apply(F(-2), F(1)), F(-2));
  EXPECT_EQ(Max::apply(F(-2), F(1)), F(1));
  for (F other : {F(1), infinity, -infinity, nan}) {
    EXPECT_TRUE(std::isnan(Min::apply(nan, other)));
    EXPECT_TRUE(std::isnan(Min::apply(other, nan)));
    EXPECT_TRUE(std::isnan(Max::apply(nan, other)));
    EXPECT_TRUE(std::isnan(Max::apply(other, nan)));
  }
}

TEST(OpsTest, MinAndMaxOrderZerosAndKeepNaN) {
  check_min_max<float>();
  check_min_max<double>();
}

TEST(OpsTest, ComplexProduct) {
  const Complex<float> product = Prod::apply(Complex<float>{1, 2}, Complex<float>{3, 4});
  EXPECT_EQ(product.re, -5.0f);
  EXPECT_EQ(product.im, 10.0f);
}

}  // namespace
}  // namespace weft
