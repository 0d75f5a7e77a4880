// A program that has the kernels in it starts without a driver, and CUDA says so instead of
// failing.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "kernels/cuda/kernels.h"

namespace weft::device {
namespace {

TEST(DeviceKernels, AreThereForAllThatIsDefined) {
  for (int type = 0; type < kDataTypes; ++type)
    for (int op = 0; op < kReduceOps; ++op) {
      const bool is_defined = defined(ReduceOp(op), DataType(type));
      EXPECT_EQ(step_kernel(ReduceOp(op), DataType(type)) != nullptr, is_defined);
      EXPECT_EQ(interpret_kernel(ReduceOp(op), DataType(type)) != nullptr, is_defined);
    }
}

TEST(DeviceKernels, AreKnownToCudaWhereThereIsADriver) {
  int driver = -1;
  ASSERT_EQ(cudaDriverGetVersion(&driver), cudaSuccess);
  int devices = 0;
  const cudaError_t found = cudaGetDeviceCount(&devices);
  if (found != cudaSuccess) {
    EXPECT_TRUE(found == cudaErrorInsufficientDriver || found == cudaErrorNoDevice)
        << cudaGetErrorString(found);
    return;
  }
  cudaFuncAttributes attributes{};
  const auto kernel =
      reinterpret_cast<const void*>(interpret_kernel(ReduceOp::sum, DataType::float32));
  ASSERT_EQ(cudaFuncGetAttributes(&attributes, kernel), cudaSuccess);
  EXPECT_EQ(attributes.localSizeBytes, 0u);
  EXPECT_EQ(attributes.maxThreadsPerBlock, kMostThreads);
}

}  // namespace
}  // namespace weft::device
