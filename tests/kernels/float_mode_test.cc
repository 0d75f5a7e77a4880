#include "kernels/float_mode.h"

#include <gtest/gtest.h>

#include "tests/support/unusual_float_mode.h"

namespace weft::test {
namespace {

// Not known to the compiler.
float sum(float a, float b) {
  volatile float x = a, y = b;
  return x + y;
}

TEST(FloatMode, IsTheUsualOneAndTheCallersAgain) {
  constexpr float kSubnormal = 1e-40f, kLittle = 1e-8f;
  EXPECT_EQ(sum(1, kLittle), 1);
  const UnusualFloatMode unusual;
  ASSERT_GT(sum(1, kLittle), 1);
  ASSERT_EQ(sum(kSubnormal, kSubnormal), 0);
  {
    const UsualFloatMode usual;
    EXPECT_EQ(sum(1, kLittle), 1);
    const UsualFloatMode again;
    EXPECT_GT(sum(kSubnormal, kSubnormal), 0);
  }
  EXPECT_GT(sum(1, kLittle), 1);
  EXPECT_EQ(sum(kSubnormal, kSubnormal), 0);
}

}  // namespace
}  // namespace weft::test
