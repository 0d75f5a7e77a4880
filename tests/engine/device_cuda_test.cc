// The machine's first GPU keeps what a Gpu promises; where there is none, that is said.
#include <gtest/gtest.h>

#include "engine/device/cuda.h"
#include "tests/engine/device_conformance.h"

namespace weft::test {
namespace {

TEST(CudaDevice, ConformsOrSaysWhyThereIsNone) {
  const Result<int> count = cuda_device_count();
  if (!count.ok()) {
    // Says why, and what to do.
    EXPECT_EQ(count.status().message().find("there is no GPU: "), 0u) << count.status().to_string();
    EXPECT_EQ(open_cuda_device(0).status().message(), count.status().message());
    GTEST_SKIP() << count.status().message();
  }
  auto device = open_cuda_device(0);
  ASSERT_TRUE(device.ok()) << device.status().to_string();
  conforms(**device);
  EXPECT_FALSE(open_cuda_device(*count).ok());
  if (*count < 2) return;
  auto other = open_cuda_device(1);
  ASSERT_TRUE(other.ok()) << other.status().to_string();
  tell_memory_apart(**device, **other);
}

}  // namespace
}  // namespace weft::test
