// When CUDA's driver is looked for: calls do not ask the dynamic loader, which would make it unsafe
// to fork beside them.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "nccl/memory.h"
#include "nccl/nccl.h"

namespace {

using weft::nccl::is_of_gpu;

TEST(Driver, IsLookedForWhereCommunicatorsAreMade) {
  ::setenv("WEFT_DEVICE", "none", 1);  // NOLINT(concurrency-mt-unsafe): so nothing else loads one
  void* const memory = reinterpret_cast<void*>(64);
  float own = 1;
  ncclComm_t before = nullptr, after = nullptr;
  ASSERT_EQ(ncclCommInitAll(&before, 1, nullptr), ncclSuccess);
  ASSERT_NE(::dlopen(WEFT_FAKE_DRIVER, RTLD_NOW), nullptr) << ::dlerror();
  for (int i = 0; i < 200; ++i) {
    ASSERT_EQ(ncclAllReduce(&own, &own, 1, ncclFloat, ncclSum, before, nullptr), ncclSuccess);
    ASSERT_FALSE(is_of_gpu(memory)) << i;
  }
  ASSERT_EQ(ncclCommInitAll(&after, 1, nullptr), ncclSuccess);
  EXPECT_TRUE(is_of_gpu(memory));
  EXPECT_FALSE(is_of_gpu(&own));
  EXPECT_EQ(ncclAllReduce(memory, &own, 1, ncclFloat, ncclSum, before, nullptr), ncclInvalidUsage);
  for (ncclComm_t comm : {before, after}) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

}  // namespace
