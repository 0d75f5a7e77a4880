// Memory of a GPU is told from the host's by the driver that the process has loaded; here a fake
// one.
#include <gtest/gtest.h>

#include <string>

#include "nccl/memory.h"
#include "nccl/nccl.h"

namespace {

void* at(uintptr_t address) { return reinterpret_cast<void*>(address); }

TEST(DeviceMemory, IsTold) {
  using weft::nccl::kind_of;
  using weft::nccl::MemoryKind;
  float own = 0;
  EXPECT_EQ(kind_of(&own), MemoryKind::host);
  EXPECT_EQ(kind_of(nullptr), MemoryKind::host);
  EXPECT_EQ(kind_of(at(64)), MemoryKind::device);
  EXPECT_EQ(kind_of(at(4096)), MemoryKind::host);  // managed
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

}  // namespace
