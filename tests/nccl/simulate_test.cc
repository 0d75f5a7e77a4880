// ncclGroupSimulateEnd tells the cost model's prices, and runs nothing.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/text.h"
#include "engine/tuner/tuning.h"
#include "nccl/nccl.h"

namespace weft {
namespace {

class Simulate : public testing::Test {
 protected:
  void SetUp() override {
    path_ = concat(testing::TempDir(), "/weft-nccl-tuning.", ::getpid());
    const Tuning tuning{"here", *find_example_network("node"), *find_example_network("node")};
    ASSERT_TRUE(write_tuning(tuning, path_).ok());
    ::setenv("WEFT_TUNING", path_.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): one thread
    ASSERT_EQ(ncclCommInitAll(comms_, 2, nullptr), ncclSuccess);
  }
  void TearDown() override {
    for (ncclComm_t comm : comms_) ncclCommDestroy(comm);
    ::setenv("WEFT_TUNING", "off", 1);  // NOLINT(concurrency-mt-unsafe)
    ::unlink(path_.c_str());
  }

  // Of `calls` all_reduces on each rank, in microseconds.
  float estimate(int calls, size_t count) {
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    EXPECT_EQ(ncclGroupStart(), ncclSuccess);
    for (int i = 0; i < calls; ++i)
      for (ncclComm_t comm : comms_)
        EXPECT_EQ(ncclAllReduce(in_, out_, count, ncclFloat, ncclSum, comm, nullptr), ncclSuccess);
    EXPECT_EQ(ncclGroupSimulateEnd(&info), ncclSuccess) << ncclGetLastError(nullptr);
    return info.estimatedTime;
  }

  std::string path_;
  ncclComm_t comms_[2] = {};
  float in_[1 << 16] = {1}, out_[1 << 16] = {};
};

TEST_F(Simulate, AddsTheCallsOfARank) {
  const float one = estimate(1, 1 << 16);
  EXPECT_GT(one, 0);
  EXPECT_FLOAT_EQ(estimate(3, 1 << 16), 3 * one);
  EXPECT_LT(estimate(1, 1), one);
  EXPECT_EQ(estimate(0, 1), 0);
  EXPECT_EQ(out_[0], 0);
}

// Only the outermost end knows all calls.
TEST_F(Simulate, SaysNothingInsideOfAGroup) {
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  info.estimatedTime = -1;
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclAllReduce(in_, out_, 1 << 16, ncclFloat, ncclSum, comms_[0], nullptr), ncclSuccess);
  EXPECT_EQ(ncclGroupSimulateEnd(&info), ncclSuccess);
  EXPECT_EQ(info.estimatedTime, -1);
  EXPECT_EQ(ncclGroupSimulateEnd(&info), ncclSuccess);
  EXPECT_GT(info.estimatedTime, 0);
}

TEST_F(Simulate, FitsStructuresOfOtherReleases) {
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  info.size = offsetof(ncclSimInfo_t, estimatedTime);
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclAllReduce(in_, out_, 1, ncclFloat, ncclSum, comms_[0], nullptr), ncclSuccess);
  EXPECT_EQ(ncclGroupSimulateEnd(&info), ncclSuccess);
  EXPECT_EQ(info.estimatedTime, NCCL_UNDEF_FLOAT);
}

}  // namespace
}  // namespace weft
