// Calls on device memory where a rank fails, waits or goes in the midst of one, on an emulated GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <latch>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/device/way.h"
#include "tests/support/contains.h"
#include "tests/support/device_calls_ranks.h"
#include "tests/support/forwarding_gpu.h"
#include "tests/support/sanitized.h"
#include "tests/support/sleep_while.h"

namespace weft::test {
namespace {

using std::chrono::milliseconds;

Call sum_of(std::span<int32_t> values) {
  return {.kind = Kind::all_reduce,
          .input = values.data(),
          .output = values.data(),
          .count = values.size(),
          .type = DataType::int32};
}

// Looking whether events have come takes a while.
class SlowToTell final : public ForwardingGpu {
 public:
  using ForwardingGpu::ForwardingGpu;
  Result<bool> is_done(Event event) override {
    std::this_thread::sleep_for(milliseconds(2));
    return ForwardingGpu::is_done(event);
  }
};

constexpr size_t kMuch = 16 << 20;

// However busy its own relay is, and though the other rank only then begins to wait.
TEST(DeviceCallsFailures, WhatWasSentArrivesWhereTheSenderGoes) {
  for (int turn = 0; turn < 5; ++turn) {
    CallsWorld world{.hosts = 2};
    world.options.timeout_s = 5;
    world.in_front = [](Rank r, std::unique_ptr<Gpu> gpu) -> std::unique_ptr<Gpu> {
      if (r != 0) return gpu;
      return std::make_unique<SlowToTell>(std::move(gpu));
    };
    run_calls(world, [](const CallsHere& here) {
      std::vector<int32_t> values(200, here.me == 0 ? 7 : 0);
      const Transfer transfer = here.me == 0 ? send_to(1, values.data(), 200, DataType::int32)
                                             : receive_from(0, values.data(), 200, DataType::int32);
      // It comes to its kernel only when the relay has begun to wait.
      std::vector<std::byte> before(kMuch), after(kMuch);
      ASSERT_TRUE(here.device.copy(after.data(), before.data(), kMuch, here.streams[0]).ok());
      const Status status = here.calls->enqueue(std::span(&transfer, 1), here.streams[0]);
      ASSERT_TRUE(status.ok()) << status.to_string();
      EXPECT_TRUE(here.me == 0 || settle(here));
      ASSERT_TRUE(here.device.synchronize(here.streams[0]).ok());
      if (here.me == 0) return here.calls.reset();
      EXPECT_TRUE(here.calls->health().ok()) << here.calls->health().to_string();
      EXPECT_EQ(values, std::vector<int32_t>(200, 7));
    });
  }
}

// Only a graph's steps wait, for a peer that has undone the first ending of their waits.
TEST(DeviceCallsFailures, WaitsOfGraphsAreEndedAgainAndAgain) {
  CallsWorld world{.engine = "stream"};
  world.options.algorithm = "ring";
  std::latch ended(2), sent(2), done(2), settled(2);
  run_calls(world, [&](const CallsHere& here) {
    std::vector<int32_t> values(4000, 1);  // more than there are slots for
    Gpu::Stream& stream = here.streams[0];
    if (here.me == 1) {
      ended.arrive_and_wait();
      ASSERT_TRUE(here.calls->enqueue(sum_of(values), stream).ok());
      std::this_thread::sleep_for(milliseconds(50));
      sent.arrive_and_wait();  // that slots are free; but not for all messages
      done.arrive_and_wait();
      here.calls->abort();
      EXPECT_TRUE(settle(here));
      return settled.arrive_and_wait();
    }
    ASSERT_TRUE(here.device.begin_capture(stream).ok());
    ASSERT_TRUE(here.calls->enqueue(sum_of(values), stream).ok());
    const auto graph = here.device.end_capture(stream);
    ASSERT_TRUE(graph.ok());
    const std::shared_ptr<Gpu> device(&here.device, [](Gpu*) {});
    DeviceWay way(2, 0, device, std::move(here.calls), {}, [] {});
    way.abort();
    std::this_thread::sleep_for(milliseconds(50));
    ended.arrive_and_wait();
    sent.arrive_and_wait();
    ASSERT_TRUE(here.device.launch_graph(*graph, stream).ok());
    std::atomic<bool> over{false};
    std::jthread waits([&] { over = here.device.synchronize(stream).ok(); });
    for (const Deadline patience = Deadline::after(120); !over && !patience.expired();) {
      EXPECT_TRUE(way.needs_care());
      way.end(Status(Code::aborted, "enough"));
      std::this_thread::sleep_for(milliseconds(1));
    }
    EXPECT_TRUE(over);
    here.device.destroy_graph(*graph);
    done.arrive_and_wait();
    settled.arrive_and_wait();  // memory goes, for which nobody's stream may wait
  });
}

// Counts what it is given, and refuses steps from the `limit`th on.
class Counted final : public ForwardingGpu {
 public:
  struct Counts {
    std::atomic<int> calls{0};  // where kernels wait
    std::atomic<int> copies{0}, steps{0}, events{0}, streams{0};
    int limit = INT32_MAX;
  };
  Counted(std::unique_ptr<Gpu> gpu, Counts& counts)
      : ForwardingGpu(std::move(gpu)), counts_(counts) {}
  Result<Stream> make_stream() override {
    ++counts_.streams;
    return ForwardingGpu::make_stream();
  }
  Result<Event> make_event() override {
    ++counts_.events;
    return ForwardingGpu::make_event();
  }
  void destroy_event(Event event) override {
    --counts_.events;
    ForwardingGpu::destroy_event(event);
  }
  Status copy(void* to, const void* from, size_t bytes, Stream stream) override {
    ++counts_.copies;
    return ForwardingGpu::copy(to, from, bytes, stream);
  }
  Status launch(const device::Program& program, const device::Call& call,
                const device::Limits& limits, uint32_t blocks, Stream stream) override {
    ++counts_.calls;
    return ForwardingGpu::launch(program, call, limits, blocks, stream);
  }
  Status launch(ReduceOp op, DataType type, const device::Operands& operands,
                const device::Tail& tail, const device::Limits& limits, uint32_t blocks,
                Stream stream) override {
    if (counts_.steps >= counts_.limit) return Status(Code::system, "the GPU has had enough");
    ++counts_.steps;
    return ForwardingGpu::launch(op, type, operands, tail, limits, blocks, stream);
  }

 private:
  Counts& counts_;
};

// Rank 0's GPU is counted.
CallsWorld counted(Counted::Counts& counts, std::string engine) {
  CallsWorld world{.engine = std::move(engine)};
  world.options.algorithm = "ring";
  world.in_front = [&counts](Rank r, std::unique_ptr<Gpu> gpu) -> std::unique_ptr<Gpu> {
    if (r != 0) return gpu;
    return std::make_unique<Counted>(std::move(gpu), counts);
  };
  return world;
}

constexpr int kMostSteps = 256;
constexpr size_t kManySteps = 128 << 10;  // as a count, by slots of 1 KiB

TEST(DeviceCallsFailures, ACallOfManyStepsComesPieceByPiece) {
  Counted::Counts counts;
  run_calls(counted(counts, "stream"), [&](const CallsHere& here) {
    std::vector<int32_t> values(kManySteps, here.me + 1);
    if (here.me == 1) {
      const Deadline patience = Deadline::after(120);
      sleep_while([&] { return counts.steps < kMostSteps / 2 && !patience.expired(); });
      std::this_thread::sleep_for(milliseconds(50));
      EXPECT_LE(counts.steps, kMostSteps);
    }
    const Status status = here.calls->enqueue(sum_of(values), here.streams[0]);
    EXPECT_TRUE(status.ok()) << status.to_string();
    ASSERT_TRUE(settle(here));
    EXPECT_TRUE(here.device.synchronize(here.streams[0]).ok());
    EXPECT_EQ(values, std::vector<int32_t>(kManySteps, 3));
  });
  EXPECT_GT(counts.steps, kMostSteps);
}

// Another thread, which aborts the rank's calls once one waits for room.
class AbortsWhoWaits {
 public:
  explicit AbortsWhoWaits(DeviceCalls& calls) {
    calls.when_waiting([this] { waits_.count_down(); });
    thread_ = std::jthread([this, &calls] {
      waits_.wait();
      EXPECT_TRUE(calls.waits());
      calls.abort();
    });
  }

 private:
  std::latch waits_{1};
  std::jthread thread_;
};

// Its other half never comes; whoever waits for room says so, and is told to end.
TEST(DeviceCallsFailures, ACallOfManyStepsEndsWhenAborted) {
  Counted::Counts counts;
  run_calls(counted(counts, "stream"), [](const CallsHere& here) {
    if (here.me == 1) return;
    const AbortsWhoWaits other(*here.calls);
    std::vector<int32_t> values(kManySteps, 1);
    DeviceCalls::Launched launched;
    const Status status = here.calls->enqueue(sum_of(values), here.streams[0], &launched);
    EXPECT_EQ(status.code(), Code::aborted) << status.to_string();
    EXPECT_EQ(launched.number, 1u);
    EXPECT_FALSE(here.calls->waits());
    EXPECT_TRUE(settle(here));
    const Status failed = here.calls->health();
    EXPECT_EQ(failed.code(), Code::aborted) << failed.to_string();
    EXPECT_TRUE(contains(failed, "all_reduce(")) << failed.to_string();
  });
}

TEST(DeviceCallsFailures, ACallOfManyStepsNamesWhoDoesNotCome) {
  Counted::Counts counts;
  CallsWorld world = counted(counts, "stream");
  world.options.timeout_s = 0.3;
  run_calls(world, [](const CallsHere& here) {
    if (here.me == 1) return;
    std::vector<int32_t> values(kManySteps, 1);
    EXPECT_FALSE(here.calls->enqueue(sum_of(values), here.streams[0]).ok());
    EXPECT_TRUE(settle(here));
    const Status failed = here.calls->health();
    EXPECT_EQ(failed.code(), Code::timeout) << failed.to_string();
    EXPECT_EQ(failed.peer(), 1) << failed.to_string();
  });
}

// Launching takes a while.
class SlowToLaunch final : public ForwardingGpu {
 public:
  using ForwardingGpu::ForwardingGpu;
  using ForwardingGpu::launch;
  Status launch(ReduceOp op, DataType type, const device::Operands& operands,
                const device::Tail& tail, const device::Limits& limits, uint32_t blocks,
                Stream stream) override {
    std::this_thread::sleep_for(milliseconds(3));
    return ForwardingGpu::launch(op, type, operands, tail, limits, blocks, stream);
  }
};

// The timeout is for each wait.
TEST(DeviceCallsFailures, ACallMayTakeLongerThanItsTimeoutWhereItsStepsEnd) {
  CallsWorld world{.engine = "stream"};
  world.options.algorithm = "ring";
  world.options.timeout_s = kSanitized ? 10 : 1;
  world.in_front = [](Rank, std::unique_ptr<Gpu> gpu) -> std::unique_ptr<Gpu> {
    return std::make_unique<SlowToLaunch>(std::move(gpu));
  };
  run_calls(world, [](const CallsHere& here) {
    std::vector<int32_t> values(kManySteps, here.me + 1);
    std::jthread looks([&](const std::stop_token& end) {
      for (; !end.stop_requested(); std::this_thread::sleep_for(milliseconds(1)))
        (void)here.calls->health();
    });
    const auto begin = std::chrono::steady_clock::now();
    const Status status = here.calls->enqueue(sum_of(values), here.streams[0]);
    EXPECT_TRUE(status.ok()) << status.to_string();
    ASSERT_TRUE(settle(here));
    EXPECT_TRUE(kSanitized || std::chrono::steady_clock::now() - begin > milliseconds(1500));
    EXPECT_TRUE(here.calls->health().ok()) << here.calls->health().to_string();
    EXPECT_EQ(values, std::vector<int32_t>(kManySteps, 3));
  });
}

constexpr int kMostCalls = 256;

TEST(DeviceCallsFailures, ManyCallsComeAsThoseBeforeThemEnd) {
  Counted::Counts counts;
  run_calls(counted(counts, "persistent"), [&](const CallsHere& here) {
    std::vector<int32_t> values(1, here.me);
    if (here.me == 1) {
      const Deadline patience = Deadline::after(60);
      sleep_while([&] { return counts.calls < kMostCalls && !patience.expired(); });
      std::this_thread::sleep_for(milliseconds(50));
      EXPECT_EQ(counts.calls, kMostCalls);
      EXPECT_TRUE(here.calls->health().ok());
    }
    Call call = sum_of(values);
    call.op = ReduceOp::max;
    for (int i = 0; i < 2 * kMostCalls; ++i) {
      const Status status = here.calls->enqueue(call, here.streams[i % 2]);
      ASSERT_TRUE(status.ok()) << status.to_string();
    }
    ASSERT_TRUE(settle(here));
    EXPECT_EQ(values[0], 1);
    EXPECT_EQ(*here.calls->ended(), 2u * kMostCalls);
  });
}

// Into a graph as many go as there are.
TEST(DeviceCallsFailures, ManyCallsGoIntoAGraphAtOnce) {
  Counted::Counts counts;
  run_calls(counted(counts, "persistent"), [&](const CallsHere& here) {
    std::vector<int32_t> values(1, here.me);
    Call call = sum_of(values);
    call.op = ReduceOp::max;
    ASSERT_TRUE(here.device.begin_capture(here.streams[0]).ok());
    for (int i = 0; i < kMostCalls + 9; ++i)
      ASSERT_TRUE(here.calls->enqueue(call, here.streams[0]).ok());
    const auto graph = here.device.end_capture(here.streams[0]);
    ASSERT_TRUE(graph.ok()) << graph.status().to_string();
    ASSERT_TRUE(here.device.launch_graph(*graph, here.streams[0]).ok());
    ASSERT_TRUE(here.device.synchronize(here.streams[0]).ok());
    EXPECT_EQ(values[0], 1);
    here.device.destroy_graph(*graph);
  });
}

// Calls of rank 0 that rank 1 does not come to, until there is no room for another one.
Status call_until_refused(const CallsHere& here, std::vector<int32_t>& values) {
  Status status;
  for (int i = 0; i <= kMostCalls && status.ok(); ++i)
    status = here.calls->enqueue(sum_of(values), here.streams[0]);
  EXPECT_FALSE(here.calls->waits());
  EXPECT_TRUE(settle(here));
  return status;
}

TEST(DeviceCallsFailures, WhoWaitsForRoomForACallEndsWhenAborted) {
  run_calls({}, [](const CallsHere& here) {
    if (here.me == 1) return;
    const AbortsWhoWaits other(*here.calls);
    std::vector<int32_t> values(8, 1);
    const Status status = call_until_refused(here, values);
    EXPECT_EQ(status.code(), Code::aborted) << status.to_string();
    EXPECT_EQ(here.calls->health().code(), Code::aborted);
  });
}

TEST(DeviceCallsFailures, WhoWaitsForRoomForACallNamesWhoDoesNotCome) {
  CallsWorld world;
  world.options.timeout_s = 2;
  run_calls(world, [](const CallsHere& here) {
    if (here.me == 1) return;
    std::atomic<bool> waited{false};
    here.calls->when_waiting([&waited] { waited = true; });
    std::vector<int32_t> values(8, 1);
    EXPECT_EQ(call_until_refused(here, values).code(), Code::timeout);
    EXPECT_TRUE(waited);
    EXPECT_EQ(here.calls->health().peer(), 1) << here.calls->health().to_string();
  });
}

// Steps that are there wait for a peer when the next one cannot be put there.
TEST(DeviceCallsFailures, ACallThatIsThereInPartEnds) {
  for (const int limit : {1, 2, 3, 5}) {
    Counted::Counts counts{.limit = limit};
    run_calls(counted(counts, "stream"), [](const CallsHere& here) {
      if (here.me == 1) return;
      std::vector<int32_t> values(4000, 1);
      DeviceCalls::Launched launched;
      const Status status = here.calls->enqueue(sum_of(values), here.streams[0], &launched);
      EXPECT_EQ(status.code(), Code::system) << status.to_string();
      EXPECT_EQ(launched.number, 1u);
      EXPECT_TRUE(settle(here));
      const Status failed = here.calls->health();
      EXPECT_TRUE(failed.ok() || contains(failed, "all_reduce(")) << failed.to_string();
    });
  }
}

TEST(DeviceCallsFailures, ACallThatIsNotThereAtAllIsNone) {
  Counted::Counts counts{.limit = 0};
  run_calls(counted(counts, "stream"), [&counts](const CallsHere& here) {
    std::vector<int32_t> values(40, 1);
    if (here.me == 0) {
      DeviceCalls::Launched launched;
      const Transfer alone = send_to(0, values.data(), 40, DataType::int32);
      const Status status = here.calls->enqueue(std::span(&alone, 1), here.streams[0], &launched);
      EXPECT_EQ(status.code(), Code::system) << status.to_string();
      EXPECT_EQ(launched.number, 0u);
      counts.limit = INT32_MAX;
    }
    ASSERT_TRUE(here.calls->enqueue(sum_of(values), here.streams[0]).ok());
    EXPECT_TRUE(settle(here));
    EXPECT_TRUE(here.device.synchronize(here.streams[0]).ok());
    EXPECT_EQ(values, std::vector<int32_t>(40, 2));
    EXPECT_EQ(*here.calls->ended(), 1u);
  });
}

// Where there is nobody else a call in place is nothing, and another one a copy: by CUDA, or by a
// kernel where that takes less time, or CUDA's would hold the caller.
TEST(DeviceCallsFailures, TheOnlyRankCopies) {
  constexpr size_t kLarge = 1 << 18;  // 1 MiB
  for (const std::string engine : {"persistent", "stream"}) {
    Counted::Counts counts;
    CallsWorld world = counted(counts, engine);
    world.ranks = 1;
    run_calls(world, [&](const CallsHere& here) {
      const bool persistent = engine == "persistent";
      const Bytes memory[] = {here.device.allocate(4 * kLarge).take(),
                              here.device.allocate(4 * kLarge).take(),
                              here.device.allocate_host(4 * kLarge).take(),
                              here.device.allocate_host(4 * kLarge).take()};
      const auto values = [&](int i) { return reinterpret_cast<int32_t*>(memory[i].data()); };
      // Copies by CUDA, kernels that are a call, and others, of a call of so many elements.
      using Did = std::array<int, 3>;
      Gpu::Stream stream = here.streams[1];
      const auto copies = [&](size_t count, int from, int to) {
        std::fill_n(values(from), count, static_cast<int32_t>(count) + from);
        const int before[] = {counts.copies, counts.calls, counts.steps};
        Call call = sum_of(std::span(values(from), count));
        call.output = values(to);
        DeviceCalls::Launched launched;
        EXPECT_TRUE(here.calls->enqueue(call, stream, &launched).ok());
        EXPECT_EQ(here.calls->would_run(call)->algorithm, "copy");
        EXPECT_TRUE(settle(here) && here.device.synchronize(stream).ok());
        EXPECT_EQ(values(to)[count - 1], static_cast<int32_t>(count) + from);
        EXPECT_EQ(launched.algorithm, launched.number == 0 ? "" : "copy");
        return Did{counts.copies - before[0], counts.calls - before[1], counts.steps > before[2]};
      };
      EXPECT_EQ(copies(40, 0, 0), (Did{0, 0, 0}));
      EXPECT_EQ(*here.calls->ended(), 0u);
      EXPECT_EQ(copies(kLarge, 0, 1), (Did{1, 0, 0}));
      EXPECT_EQ(*here.calls->ended(), 1u);
      // A kernel whose shape is new has its tables copied.
      EXPECT_EQ(copies(40, 0, 1), persistent ? (Did{1, 1, 0}) : (Did{1, 0, 0}));
      EXPECT_EQ(copies(40, 0, 1), persistent ? (Did{0, 1, 0}) : (Did{1, 0, 0}));
      EXPECT_EQ(copies(kLarge, 2, 1), (Did{1, 0, 0}));
      EXPECT_EQ(copies(kLarge, 2, 3), persistent ? (Did{1, 1, 0}) : (Did{1, 0, 1}));
      stream = here.calls->own_stream();  // of calls that somebody waits for
      EXPECT_EQ(copies(40, 2, 2), (Did{0, 0, 0}));
      EXPECT_EQ(*here.calls->ended(), 6u);
      const int32_t factor = 3;  // so that it is no copy
      std::fill_n(values(0), 40, 8);
      Call call = sum_of(std::span(values(0), 40));
      call.op = ReduceOp::premulsum;
      call.scalar = &factor;
      ASSERT_TRUE(here.calls->enqueue(call, here.streams[1]).ok());
      ASSERT_TRUE(settle(here) && here.device.synchronize(here.streams[1]).ok());
      EXPECT_EQ(values(0)[39], 24);
      for (int i = 0; i < 4; ++i)
        i < 2 ? here.device.release(memory[i]) : here.device.release_host(memory[i]);
    });
  }
}

// That no two streams share a work queue is decided before any is made.
TEST(DeviceCallsFailures, ARankHasNoMoreStreamsThanAreCounted) {
  for (const std::string engine : {"persistent", "stream"}) {
    Counted::Counts counts;
    run_calls(counted(counts, engine), [&counts](const CallsHere& here) {
      const Gpu::Stream callers = here.streams[0];
      std::vector<int32_t> values(40, 1);
      ASSERT_TRUE(here.calls->enqueue(sum_of(values), callers).ok());
      ASSERT_TRUE(here.device.begin_capture(callers).ok());
      ASSERT_TRUE(here.calls->enqueue(sum_of(values), callers).ok());
      const auto graph = here.device.end_capture(callers);
      ASSERT_TRUE(graph.ok());
      here.device.destroy_graph(*graph);
      here.calls->abort();
      EXPECT_TRUE(settle(here));
      if (here.me == 0) counts.streams -= std::size(here.streams) - 1;  // its caller has one
    });
    EXPECT_EQ(counts.streams, kStreamsOfRank - (engine == "stream" ? 0 : 1));
  }
}

// What is remembered of graphs goes with them, also where nothing else wants room.
TEST(DeviceCallsFailures, GraphsThatGoLeaveNothing) {
  for (const std::string engine : {"persistent", "stream"}) {
    Counted::Counts counts;
    run_calls(counted(counts, engine), [&counts](const CallsHere& here) {
      std::vector<int32_t> values(40, 1);
      int first = 0;
      for (int turn = 0; turn < 20; ++turn) {
        Gpu::Stream& stream = here.streams[0];
        ASSERT_TRUE(here.device.begin_capture(stream).ok());
        ASSERT_TRUE(here.calls->enqueue(sum_of(values), stream).ok());
        const auto graph = here.device.end_capture(stream);
        ASSERT_TRUE(graph.ok());
        ASSERT_TRUE(here.device.launch_graph(*graph, stream).ok());
        ASSERT_TRUE(here.device.synchronize(stream).ok());
        here.device.destroy_graph(*graph);
        if (turn == 0) first = counts.events;
      }
      EXPECT_EQ(values, std::vector<int32_t>(40, 1 << 20));
      EXPECT_EQ(here.me == 0 ? counts.events.load() : first, first);
    });
  }
}

}  // namespace
}  // namespace weft::test
