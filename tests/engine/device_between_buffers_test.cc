// Calls on device memory that touch other ranks' buffers, by ranks that are threads on one GPU made
// of threads.
#include <gtest/gtest.h>

#include <latch>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/contains.h"
#include "tests/support/device_calls_ranks.h"
#include "tests/support/forwarding_gpu.h"
#include "tests/support/oracle.h"
#include "tests/support/sanitized.h"

namespace weft::test {
namespace {

// Ranks, engine, and hosts.
class BetweenBuffers : public testing::TestWithParam<std::tuple<int, const char*, int>> {
 protected:
  static CallsWorld world() {
    const auto& [ranks, engine, hosts] = GetParam();
    return {.ranks = ranks, .engine = engine, .hosts = hosts};
  }
};
const std::vector<int> kRanks = kSanitized ? std::vector{1, 2, 3} : std::vector{1, 2, 3, 5};
INSTANTIATE_TEST_SUITE_P(DeviceCalls, BetweenBuffers,
                         testing::Combine(testing::ValuesIn(kRanks),
                                          testing::Values("persistent", "stream"),
                                          testing::Values(1, 2)));

// Runs it, and gives the memory up the moment this rank is through.
void expect_right(const Shape& shape, bool in_place, size_t misalign, const CallsHere& here,
                  Gpu::Stream stream) {
  CallMemory memory(shape, here.me, in_place, ReduceOp::sum, misalign);
  memory.fill(shape.count + misalign);
  const Status status = here.calls->enqueue(memory.call(), stream);
  ASSERT_TRUE(status.ok()) << status.to_string();
  ASSERT_TRUE(here.device.synchronize(stream).ok());
  ASSERT_EQ(memory.compare(), "") << name(shape.kind) << " of " << shape.count;
  memory.scribble();
}

std::string algorithm_of(const Shape& shape, bool in_place, const CallsHere& here) {
  const CallMemory memory(shape, here.me, in_place);
  const auto what = here.calls->would_run(memory.call());
  return what.ok() ? what->algorithm : what.status().to_string();
}

// Large calls run between the ranks' own buffers where one GPU has them all; but for all_to_all,
// which nobody can do so who is in place, and only that rank knows it.
TEST_P(BetweenBuffers, RunLargeCallsBetweenBuffers) {
  const bool can = world().hosts == 1 && world().ranks > 1;
  run_calls(world(), [=](const CallsHere& here) {
    DeviceCalls& calls = *here.calls;
    size_t turn = 0;
    for (Shape shape : shapes_of_calls(calls.size()))
      for (const bool in_place : {false, true}) {
        if (shape.count != 37) continue;
        EXPECT_NE(algorithm_of(shape, in_place, here), "zero_copy");
        shape.count = 9001;
        EXPECT_EQ(algorithm_of(shape, in_place, here) == "zero_copy",
                  can && shape.kind != Kind::all_to_all)
            << name(shape.kind);
        for (const size_t misalign : {0, 4}) {
          if (!can) continue;
          ASSERT_NO_FATAL_FAILURE(
              expect_right(shape, in_place, misalign, here, here.streams[++turn % 2]));
        }
        shape.count = 37;
      }
    const Shape parts{.kind = Kind::all_reduce, .ranks = calls.size(), .count = 300'001};
    if (can && !kSanitized) {
      ASSERT_NO_FATAL_FAILURE(expect_right(parts, false, 0, here, here.streams[0]));
    }
    EXPECT_TRUE(calls.health().ok()) << calls.health().to_string();
  });
}

TEST_P(BetweenBuffers, RunBetweenBuffersWhatIsAsked) {
  CallsWorld world = BetweenBuffers::world();
  world.options.algorithm = "zero_copy";
  if (world.ranks == 1) GTEST_SKIP() << "there are no others' buffers";
  const bool can = world.hosts == 1;
  run_calls(world, [=](const CallsHere& here) {
    DeviceCalls& calls = *here.calls;
    for (const Shape& shape : shapes_of_calls(calls.size()))
      for (const bool in_place : {false, true}) {
        const std::string what = algorithm_of(shape, in_place, here);
        if (!can) {
          EXPECT_TRUE(contains(what, "needs windows that all ranks share")) << what;
        } else if (shape.kind == Kind::all_to_all && in_place) {
          EXPECT_TRUE(contains(what, "zero_copy does not serve all_to_all")) << what;
        } else if (!kSanitized || shape.count == 37) {
          ASSERT_NO_FATAL_FAILURE(
              expect_right(shape, in_place, 0, here, here.streams[shape.count % 2]));
        }
      }
    EXPECT_TRUE(calls.health().ok()) << calls.health().to_string();
  });
}

// Holds back what touches others' buffers: the only launch, or the fourth step.
class HeldBack final : public ForwardingGpu {
 public:
  HeldBack(std::unique_ptr<Gpu> gpu, std::latch& until)
      : ForwardingGpu(std::move(gpu)), until_(until) {}
  Status launch(const device::Program& program, const device::Call& call,
                const device::Limits& limits, uint32_t blocks, Stream stream) override {
    until_.wait();
    return ForwardingGpu::launch(program, call, limits, blocks, stream);
  }
  Status launch(ReduceOp op, DataType type, const device::Operands& operands,
                const device::Tail& tail, const device::Limits& limits, uint32_t blocks,
                Stream stream) override {
    if (++steps_ == 4) until_.wait();
    return ForwardingGpu::launch(op, type, operands, tail, limits, blocks, stream);
  }

 private:
  std::latch& until_;
  int steps_ = 0;
};

// A rank that gave up has its buffers for itself again, though it has told where they are.
TEST(BetweenBuffersFailures, WhoComesLateKeepsOffBuffersOfWhoGaveUp) {
  for (const char* const engine : {"persistent", "stream"}) {
    CallsWorld world{.engine = engine};
    world.options.timeout_s = kSanitized ? 20 : 6;
    const double soon_s = kSanitized ? 2 : 0.3;
    std::latch gave_up(1), late_one_ended(1);
    world.in_front = [&](Rank r, std::unique_ptr<Gpu> gpu) -> std::unique_ptr<Gpu> {
      if (r == 0) return gpu;
      return std::make_unique<HeldBack>(std::move(gpu), gave_up);
    };
    run_calls(world, [&](const CallsHere& here) {
      std::vector<int32_t> in(20'000, here.me), out(in.size(), -1);
      const Call call{.kind = Kind::all_reduce,
                      .input = in.data(),
                      .output = out.data(),
                      .count = in.size(),
                      .type = DataType::int32,
                      .timeout_s = here.me == 0 ? soon_s : 0};  // rank 1 may take its time
      EXPECT_EQ(here.calls->would_run(call)->algorithm, "zero_copy");
      EXPECT_TRUE(here.calls->enqueue(call, here.streams[0]).ok());
      settle(here);
      EXPECT_TRUE(here.device.synchronize(here.streams[0]).ok());
      const Status why = here.calls->health();
      EXPECT_EQ(why.peer(), 1 - here.me) << engine << ": " << why.to_string();
      if (here.me == 1) {
        EXPECT_TRUE(contains(why, "rank 1's GPU keeps off the input and output of rank 0"))
            << engine << ": " << why.to_string();
        return late_one_ended.count_down();
      }
      EXPECT_EQ(why.code(), Code::timeout) << engine << ": " << why.to_string();
      out.assign(out.size(), 7);
      gave_up.count_down();
      late_one_ended.wait();
      EXPECT_EQ(out, std::vector<int32_t>(out.size(), 7)) << engine;
    });
  }
}

}  // namespace
}  // namespace weft::test
