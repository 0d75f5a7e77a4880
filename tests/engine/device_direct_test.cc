// Ranks on two hosts whose GPUs' memory RDMA reaches itself, or not on all of them.
#include <gtest/gtest.h>

#include <cerrno>
#include <numeric>
#include <set>

#include "bootstrap/rendezvous.h"
#include "tests/support/contains.h"
#include "tests/support/device_calls_ranks.h"
#include "tests/support/fabric_gpu.h"
#include "tests/support/fake_gpu.h"
#include "tests/support/oracle.h"

namespace weft::test {
namespace {

using verbs::test::Fabric;
using verbs::test::FabricOptions;

constexpr int kRanks = 3;

// A GPU that gives no dma-bufs, as those of older drivers.
class Old final : public FabricGpu {
 public:
  using FabricGpu::FabricGpu;
  Result<Fd> dma_buf(Bytes) override { return unsupported("this GPU gives no dma-bufs"); }
};

class DeviceDirect : public testing::Test {
 protected:
  DeviceDirect() {
    world_.connect = [fabric = fabric_](Rendezvous& meet, const Deadline& deadline) {
      return connect_by_verbs(fabric, meet, deadline);
    };
    give_gpus<FabricGpu>(kRanks);
  }
  // Ranks from this one on have such GPUs.
  template <class Other>
  void give_gpus(Rank others) {
    world_.in_front = [fabric = fabric_, others](Rank r,
                                                 std::unique_ptr<Gpu> gpu) -> std::unique_ptr<Gpu> {
      if (r < others) return std::make_unique<FabricGpu>(std::move(gpu), fabric);
      return std::make_unique<Other>(std::move(gpu), fabric);
    };
  }
  // Whether calls give what the oracle gives, and say of the way that data takes what they should.
  void expect_calls(bool direct, std::string_view words) {
    run_calls(world_, [&](const CallsHere& here) {
      EXPECT_TRUE(contains(here.calls->choice().reason, words)) << here.calls->choice().reason;
      EXPECT_EQ(fabric_->device_regions(), direct ? size_t{kRanks} : 0u);
      for (const size_t count : {size_t{1}, size_t{37}, size_t{5000}}) {
        CallMemory memory({.kind = Kind::all_reduce, .ranks = kRanks, .count = count}, here.me,
                          false);
        memory.fill(count);
        ASSERT_TRUE(here.calls->enqueue(memory.call(), here.streams[0]).ok());
        ASSERT_TRUE(here.device.synchronize(here.streams[0]).ok());
        ASSERT_EQ(memory.compare(), "") << count;
      }
    });
    EXPECT_EQ(fabric_->device_regions(), 0u);
    EXPECT_EQ(fabric_->regions(), 0u);
    EXPECT_EQ(fabric_->violations(), std::vector<std::string>());
  }

  const std::shared_ptr<Fabric> fabric_ = std::make_shared<Fabric>(FabricOptions());
  CallsWorld world_{.ranks = kRanks, .hosts = 3};
};

TEST_F(DeviceDirect, IsTheWayWhereAllCan) {
  for (const char* engine : {"persistent", "stream"}) {
    world_.engine = engine;
    expect_calls(true, "all goes over verbs, straight from the memory of GPUs");
  }
}

// What is large goes by plain writes, from memory that is the GPU's into memory that is.
TEST_F(DeviceDirect, ReadsAndWritesTheMemoryOfGpus) {
  expect_calls(true, "straight");
  size_t puts = 0, large = 0;
  for (const verbs::test::Posted& request : fabric_->posted()) {
    puts += request.opcode == IBV_WR_RDMA_WRITE && request.bytes > 0;
    large += request.opcode != IBV_WR_RDMA_WRITE && request.bytes > 64;
  }
  EXPECT_GT(puts, 0u);
  EXPECT_EQ(large, 0u);
}

TEST_F(DeviceDirect, AllLeaveItWhereOneDeviceRefuses) {
  fabric_->fail_call("reg_dmabuf_mr", EOPNOTSUPP, 2);
  expect_calls(false, "ibv_reg_dmabuf_mr");
}

TEST_F(DeviceDirect, AllLeaveItWhereHalfOfTheGpusCannot) {
  give_gpus<Old>(2);
  expect_calls(false,
               "over verbs, through the memory of hosts (rank 2: this GPU gives no dma-bufs)");
}

TEST_F(DeviceDirect, AllLeaveItWhereItIsOff) {
  world_.options.gpu_direct = "off";
  expect_calls(false, "(rank 0: option gpu_direct (WEFT_GPU_DIRECT) is off)");
}

}  // namespace
}  // namespace weft::test
