// Memory of a GPU is told from the host's by the driver that the process has loaded; here a fake
// one.
#include <gtest/gtest.h>

#include <string>

#include "nccl/memory.h"
#include "nccl/nccl.h"

namespace {

void* at(uintptr_t address) { return reinterpret_cast<void*>(address); }

TEST(DeviceMemory, IsTold) {
  using weft::nccl::is_of_gpu;
  float own = 0;
  weft::nccl::look_for_driver();
  EXPECT_FALSE(is_of_gpu(&own));
  EXPECT_FALSE(is_of_gpu(nullptr));
  EXPECT_TRUE(is_of_gpu(at(64)));
  EXPECT_FALSE(is_of_gpu(at(4096)));  // managed
}

TEST(DeviceMemory, IsRefused) {
  ncclComm_t comm = nullptr;
  ASSERT_EQ(ncclCommInitAll(&comm, 1, nullptr), ncclSuccess);
  float own = 0;
  EXPECT_EQ(ncclAllReduce(at(64), &own, 1, ncclFloat, ncclSum, comm, nullptr), ncclInvalidUsage);
  EXPECT_NE(std::string(ncclGetLastError(nullptr)).find("memory of a GPU"), std::string::npos);
  EXPECT_EQ(ncclAllReduce(&own, at(64), 1, ncclFloat, ncclSum, comm, nullptr), ncclInvalidUsage);
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

// What multiplies nothing may be anywhere.
TEST(DeviceMemory, MayBeTheFactorOfNothing) {
  ncclComm_t comm = nullptr;
  ncclRedOp_t op;
  float own = 0;
  ASSERT_EQ(ncclCommInitAll(&comm, 1, nullptr), ncclSuccess);
  ASSERT_EQ(ncclRedOpCreatePreMulSum(&op, at(64), ncclFloat, ncclScalarDevice, comm), ncclSuccess);
  EXPECT_EQ(ncclAllReduce(&own, &own, 0, ncclFloat, op, comm, nullptr), ncclSuccess);
  EXPECT_EQ(ncclAllReduce(&own, &own, 1, ncclFloat, op, comm, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

}  // namespace
