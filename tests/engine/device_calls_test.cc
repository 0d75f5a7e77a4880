// Calls on device memory by all ranks of a process, on a GPU made of threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <latch>
#include <numeric>
#include <thread>

#include "base/text.h"
#include "kernels/device_step.h"
#include "kernels/reduce.h"
#include "tests/support/contains.h"
#include "tests/support/device_calls_ranks.h"
#include "tests/support/oracle.h"
#include "tests/support/sanitized.h"
#ifdef WEFT_HAVE_VERBS
#include "tests/support/fabric_gpu.h"
#endif

namespace weft::test {
namespace {

using World = CallsWorld;
using Body = std::function<void(Rank, Gpu&, DeviceCalls&, Gpu::Stream (&)[2])>;

void run_ranks(const World& world, const Body& body) {
  run_calls(world, [&body](const CallsHere& here) {
    body(here.me, here.device, *here.calls, here.streams);
  });
}

// How calls are run, on how many hosts, and whether RDMA moves GPUs' memory between those.
struct Runs {
  std::string engine;
  int hosts;
  bool direct;
  friend void PrintTo(const Runs& r, std::ostream* to) {
    *to << r.engine << " on " << r.hosts << (r.direct ? ", direct" : "");
  }

  World world(int ranks) const {
    World world{.ranks = ranks, .engine = engine, .hosts = hosts};
#ifdef WEFT_HAVE_VERBS
    if (!direct) return world;
    const auto fabric = std::make_shared<verbs::test::Fabric>(verbs::test::FabricOptions());
    world.connect = [fabric](Rendezvous& meet, const Deadline& deadline) {
      return connect_by_verbs(fabric, meet, deadline);
    };
    world.in_front = [fabric](Rank, std::unique_ptr<Gpu> gpu) {
      return std::make_unique<FabricGpu>(std::move(gpu), fabric);
    };
    world.options.gpu_direct = "on";
#endif
    return world;
  }
};
const std::vector<Runs> kRunsOfAll = {
    {"persistent", 1, false}, {"stream", 1, false}, {"persistent", 2, false}, {"stream", 2, false},
#ifdef WEFT_HAVE_VERBS
    {"persistent", 2, true},  {"stream", 2, true},
#endif
};
const auto kRuns = testing::ValuesIn(kRunsOfAll);

class Ranks : public testing::TestWithParam<std::tuple<int, Runs>> {
 protected:
  static World world() {
    const auto& [ranks, runs] = GetParam();
    return runs.world(ranks);
  }
};
class Engines : public testing::TestWithParam<Runs> {
 protected:
  static World world(int ranks = 2) { return GetParam().world(ranks); }
};
// Sanitizers make the emulated GPU slow, and launches of many small kernels most of all.
const std::vector<int> kRanks = kSanitized ? std::vector{1, 2, 3} : std::vector{1, 2, 3, 5};
INSTANTIATE_TEST_SUITE_P(DeviceCalls, Ranks, testing::Combine(testing::ValuesIn(kRanks), kRuns));
INSTANTIATE_TEST_SUITE_P(DeviceCalls, Engines, kRuns);

// Until nothing is on a stream, looking after what is there as its owner has to.
void settle(Gpu& device, DeviceCalls& calls, std::span<const Gpu::Stream> streams) {
  while (!*calls.idle()) {
    (void)calls.health();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  for (Gpu::Stream stream : streams) ASSERT_TRUE(device.synchronize(stream).ok());
}

TEST_P(Ranks, GetWhatTheOracleGives) {
  const bool briefly = kSanitized && world().engine == "stream";
  run_ranks(world(), [=](Rank me, Gpu& device, DeviceCalls& calls, Gpu::Stream(&streams)[2]) {
    uint64_t salt = 0;
    for (const Shape& shape : shapes_of_calls(calls.size()))
      for (const bool in_place : {false, true}) {
        if (briefly && (in_place ? shape.count != 37 : shape.count == 1)) continue;
        CallMemory memory(shape, me, in_place);
        memory.fill(++salt);
        Gpu::Stream stream = streams[salt % 2];
        const Status status = calls.enqueue(memory.call(), stream);
        ASSERT_TRUE(status.ok()) << status.to_string();
        ASSERT_TRUE(device.synchronize(stream).ok());
        ASSERT_EQ(memory.compare(), "") << name(shape.kind) << " of " << shape.count;
      }
    EXPECT_TRUE(calls.health().ok());
  });
}

// Finite numbers of every type.
std::vector<std::byte> operand(const Call& call, Rank rank) {
  std::vector<std::byte> bytes(call.count * size_of(call.type));
  const size_t below = call.type == DataType::boolean ? 2 : 0x3f;
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>((i * 7 + static_cast<size_t>(rank) * (i + 3)) % below);
  return bytes;
}

TEST_P(Engines, ReduceEveryTypeByEveryOperation) {
  run_ranks(world(), [&](Rank me, Gpu& device, DeviceCalls& calls, Gpu::Stream(&streams)[2]) {
    for (int type = 0; type < kDataTypes; ++type)
      for (int op = 0; op < kReduceOps; ++op) {
        Call call{.kind = Kind::all_reduce,
                  .count = 37,
                  .type = static_cast<DataType>(type),
                  .op = static_cast<ReduceOp>(op)};
        if (!defined(call.op, call.type) || call.op == ReduceOp::premulsum) continue;
        if (kSanitized && !device::counts_bytes(call.op)) continue;
        const std::vector<std::byte> in = operand(call, me), peers = operand(call, 1 - me);
        std::vector<std::byte> out(in.size()), expected(in.size());
        call.input = in.data();
        call.output = out.data();
        ASSERT_TRUE(calls.enqueue(call, streams[0]).ok());
        ASSERT_TRUE(device.synchronize(streams[0]).ok());
        const void* const both[] = {me == 0 ? in.data() : peers.data(),
                                    me == 0 ? peers.data() : in.data()};
        void* const to = expected.data();
        reduce_kernel(call.op, call.type,
                      Isa::portable)({.sources = both,
                                      .source_count = 2,
                                      .targets = &to,
                                      .target_count = 1,
                                      .count = call.count,
                                      .divisor = call.op == ReduceOp::avg ? 2 : 1});
        ASSERT_TRUE(out == expected) << name(call.type) << " by " << name(call.op);
        ASSERT_TRUE(calls.health().ok()) << calls.health().to_string();
      }
  });
}

// Only the root knows all sizes: all have to choose alike nevertheless.
TEST_P(Engines, ChooseAlikeWhereSizesAreKnownToPairs) {
  // Enough for several copies of lanes; steps by themselves have none, and take long here.
  const size_t most = GetParam().engine == "stream" ? 20'000 : 300'000;
  run_ranks(world(3), [&](Rank me, Gpu& device, DeviceCalls& calls, Gpu::Stream(&streams)[2]) {
    for (const Kind kind : {Kind::gather, Kind::scatter}) {
      const Shape shape{
          .kind = kind, .ranks = 3, .root = 1, .varying = true, .counts = {5, 3, most}};
      CallMemory memory(shape, me, false);
      memory.fill(7);
      const Status status = calls.enqueue(memory.call(), streams[0]);
      ASSERT_TRUE(status.ok()) << status.to_string();
      ASSERT_TRUE(device.synchronize(streams[0]).ok());
      ASSERT_EQ(memory.compare(), "") << name(kind);
      ASSERT_TRUE(calls.health().ok()) << calls.health().to_string();
    }
  });
}

// Short data comes as packets where kernels may wait for them and memory is mapped; where options
// ask, all for which there is room.
TEST_P(Engines, ChooseTheProtocolBySize) {
  const bool can = GetParam().engine == "persistent" && GetParam().hosts == 1;
  struct Asked {
    const char* protocol;
    bool short_data, long_data;  // whether they are packets
  };
  for (const Asked& asked :
       {Asked{"auto", true, false}, Asked{"simple", false, false}, Asked{"ll", true, true}}) {
    World world = Engines::world(3);
    world.options.protocol = asked.protocol;
    run_ranks(world, [&](Rank me, Gpu& device, DeviceCalls& calls, Gpu::Stream(&streams)[2]) {
      for (const size_t count : {64, 20'000}) {
        CallMemory memory({.kind = Kind::all_reduce, .ranks = 3, .count = count}, me, false);
        memory.fill(count);
        const bool packets = can && (count == 64 ? asked.short_data : asked.long_data);
        EXPECT_EQ(calls.would_run(memory.call())->protocol, packets ? "ll" : "simple")
            << asked.protocol << ", " << count;
        if (!packets) continue;
        ASSERT_TRUE(calls.enqueue(memory.call(), streams[0]).ok());
        ASSERT_TRUE(device.synchronize(streams[0]).ok());
        ASSERT_EQ(memory.compare(), "") << asked.protocol << ", " << count;
      }
      int32_t x = 0;  // which is only asked about
      const auto huge = calls.would_run(
          {.kind = Kind::all_reduce, .input = &x, .output = &x, .count = 9'000'000});
      ASSERT_TRUE(huge.ok()) << huge.status().to_string();
      EXPECT_EQ(huge->protocol, "simple") << asked.protocol;
    });
  }
}

// Messages of several chunks have places in a slot that do not depend on their sizes.
TEST_P(Engines, CarrySeveralChunksInAMessage) {
  for (const char* algorithm : {"bruck", "pat"}) {
    World world = Engines::world(5);
    world.options.algorithm = algorithm;
    run_ranks(world, [&](Rank me, Gpu& device, DeviceCalls& calls, Gpu::Stream(&streams)[2]) {
      for (const size_t count : {1, 3, 700}) {
        const Shape shape{.kind = Kind::all_gather, .ranks = 5, .count = count};
        CallMemory memory(shape, me, false);
        memory.fill(count);
        const Status status = calls.enqueue(memory.call(), streams[0]);
        ASSERT_TRUE(status.ok()) << status.to_string();
        ASSERT_TRUE(device.synchronize(streams[0]).ok());
        ASSERT_EQ(memory.compare(), "") << algorithm << " of " << count;
      }
    });
  }
}

// Many calls of several shapes under way, on both streams: they run in the order of the calls.
TEST_P(Ranks, QueueCallsOnSeveralStreams) {
  run_ranks(world(), [](Rank me, Gpu& device, DeviceCalls& calls, Gpu::Stream(&streams)[2]) {
    constexpr int kCalls = 40;
    std::vector<int32_t> values(64, me + 1);
    for (int i = 0; i < kCalls; ++i)  // each reads what the one before wrote, on the other stream
      ASSERT_TRUE(calls
                      .enqueue({.kind = Kind::all_reduce,
                                .input = values.data(),
                                .output = values.data(),
                                .count = 1 + static_cast<size_t>(i) % 64,
                                .type = DataType::int32,
                                .op = ReduceOp::max},
                               streams[i % 2])
                      .ok());
    ASSERT_TRUE(calls.enqueue({.kind = Kind::barrier}, streams[0]).ok());
    for (Gpu::Stream stream : streams) ASSERT_TRUE(device.synchronize(stream).ok());
    for (int i = 0; i < kCalls; ++i) EXPECT_EQ(values[static_cast<size_t>(i)], calls.size());
  });
}

TEST_P(Ranks, SendAndReceiveInGroups) {
  run_ranks(world(), [](Rank me, Gpu& device, DeviceCalls& calls, Gpu::Stream(&streams)[2]) {
    const int n = calls.size();
    for (const size_t count : {size_t{3}, size_t{3000}, size_t{3}}) {
      std::vector<std::vector<int32_t>> out(static_cast<size_t>(n)), in(out);
      std::vector<Transfer> group;
      for (Rank peer = 0; peer < n; ++peer) {
        out[static_cast<size_t>(peer)].assign(count, me * 100 + peer);
        in[static_cast<size_t>(peer)].assign(count, -1);
        group.push_back(
            send_to(peer, out[static_cast<size_t>(peer)].data(), count, DataType::int32));
        group.push_back(
            receive_from(peer, in[static_cast<size_t>(peer)].data(), count, DataType::int32));
      }
      const Status status = calls.enqueue(group, streams[0]);
      ASSERT_TRUE(status.ok()) << status.to_string();
      ASSERT_TRUE(device.synchronize(streams[0]).ok());
      for (Rank peer = 0; peer < n; ++peer)
        ASSERT_EQ(in[static_cast<size_t>(peer)], std::vector<int32_t>(count, peer * 100 + me));
    }
  });
}

// Those of new shapes, too, though the last rank, whom they wait for, comes late.
TEST_P(Engines, ReturnAtOnce) {
  World world = Engines::world();
  world.options.timeout_s = 5;
  std::latch called(2);
  run_ranks(world, [&called](Rank me, Gpu& device, DeviceCalls& calls, Gpu::Stream(&streams)[2]) {
    if (me == 1) called.arrive_and_wait();
    std::vector<std::vector<int32_t>> values(9, std::vector<int32_t>(9, 1));
    for (size_t i = 0; i < values.size(); ++i) {
      const Call call{.kind = Kind::all_reduce,
                      .input = values[i].data(),
                      .output = values[i].data(),
                      .count = i + 1,
                      .type = DataType::int32};
      EXPECT_TRUE(calls.enqueue(call, streams[0]).ok());
    }
    const Transfer transfers[] = {send_to(1 - me, &me, 1, DataType::int32),
                                  receive_from(1 - me, values[0].data() + 1, 1, DataType::int32)};
    EXPECT_TRUE(calls.enqueue(transfers, streams[0]).ok());
    if (me == 0) called.arrive_and_wait();
    ASSERT_TRUE(device.synchronize(streams[0]).ok());
    ASSERT_TRUE(calls.health().ok()) << calls.health().to_string();
    EXPECT_EQ(values[0][1], 1 - me);
    for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i][i], 2);
  });
}

// More steps than streams may have at once, while the last rank comes late.
TEST_P(Engines, WaitForRoomOnStreams) {
  run_ranks(world(), [](Rank me, Gpu& device, DeviceCalls& calls, Gpu::Stream(&streams)[2]) {
    if (me == 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    std::vector<int32_t> values(8, me + 1);
    for (int i = 0; i < 90; ++i)
      ASSERT_TRUE(calls
                      .enqueue({.kind = Kind::all_reduce,
                                .input = values.data(),
                                .output = values.data(),
                                .count = values.size(),
                                .type = DataType::int32,
                                .op = ReduceOp::max},
                               streams[0])
                      .ok());
    ASSERT_TRUE(device.synchronize(streams[0]).ok());
    EXPECT_EQ(values, std::vector<int32_t>(8, 2));
    EXPECT_EQ(*calls.ended(), 90u);
  });
}

// Room for a few shapes only: they are forgotten and made again.
TEST_P(Engines, MakeRoomForNewShapes) {
  World world = Engines::world();
  world.room = {16 << 10, 8 << 10, 64 << 10};
  run_ranks(world, [](Rank me, Gpu& device, DeviceCalls& calls, Gpu::Stream(&streams)[2]) {
    for (size_t count = 1; count <= (kSanitized ? 60 : 200); ++count) {
      std::vector<int32_t> in(count % 50 + 1, me), out(in.size(), -1);
      ASSERT_TRUE(calls
                      .enqueue({.kind = Kind::all_reduce,
                                .input = in.data(),
                                .output = out.data(),
                                .count = in.size(),
                                .type = DataType::int32,
                                .op = ReduceOp::sum},
                               streams[0])
                      .ok());
      ASSERT_TRUE(device.synchronize(streams[0]).ok());
      ASSERT_EQ(out, std::vector<int32_t>(in.size(), 1));
    }
  });
}

// Rank 1's groups come one by one: rank 0 waits for all of its own, whose addresses fill the room
// for them, and for longer than a call may take; but some end all the time.
TEST_P(Engines, WaitForRoomForGroupsWhileSomeEnd) {
  if (GetParam().hosts != 1) return;  // the host looks after links as well there
  World world = Engines::world();
  world.room.words = 8 << 10;
  world.options.timeout_s = 1;
  run_ranks(world, [](Rank me, Gpu& device, DeviceCalls& calls, Gpu::Stream(&streams)[2]) {
    std::vector<int32_t> value(1, me);
    for (int i = 0; i < 40; ++i) {
      if (me == 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
      const Transfer one[] = {me == 0 ? send_to(1, value.data(), 1, DataType::int32)
                                      : receive_from(0, value.data(), 1, DataType::int32)};
      const Status status = calls.enqueue(one, streams[0]);
      ASSERT_TRUE(status.ok()) << i << ": " << status.to_string();
    }
    ASSERT_TRUE(device.synchronize(streams[0]).ok());
    EXPECT_EQ(value[0], 0);
  });
}

// What graphs refer to stays while other shapes come and go, until it leaves no room for them.
TEST_P(Engines, KeepWhatGraphsReferTo) {
  World world = Engines::world();
  // Scripts' tables are smaller.
  world.room = {(world.engine == "stream" ? 6u : 16u) << 10, 8 << 10, 64 << 10};
  run_ranks(world, [](Rank me, Gpu& device, DeviceCalls& calls, Gpu::Stream(&streams)[2]) {
    std::vector<int32_t> in(50, me), out(50, -1);
    const auto reduce = [&](size_t count) {
      return calls.enqueue({.kind = Kind::all_reduce,
                            .input = in.data(),
                            .output = out.data(),
                            .count = count,
                            .type = DataType::int32,
                            .op = ReduceOp::sum},
                           streams[0]);
    };
    const auto capture = [&](size_t count, std::vector<Gpu::Graph>& graphs) {
      EXPECT_TRUE(device.begin_capture(streams[0]).ok());
      const Status put = reduce(count);
      graphs.push_back(device.end_capture(streams[0]).take());
      return put;
    };
    std::vector<Gpu::Graph> graphs;
    ASSERT_TRUE(reduce(50).ok());  // is forgotten, what the graph has is not
    ASSERT_TRUE(capture(50, graphs).ok());
    for (size_t i = 0; i < (kSanitized ? 60 : 200); ++i) {
      ASSERT_TRUE(reduce(i % 50 + 1).ok());
      ASSERT_TRUE(device.synchronize(streams[0]).ok());
      out.assign(50, -1);
      ASSERT_TRUE(device.launch_graph(graphs[0], streams[0]).ok());
      ASSERT_TRUE(device.synchronize(streams[0]).ok());
      ASSERT_EQ(out, std::vector<int32_t>(50, 1));
    }
    Status full;
    for (size_t count = 1; full.ok() && count <= 50; ++count) full = capture(count, graphs);
    EXPECT_EQ(full.code(), Code::unsupported);
    EXPECT_NE(full.message().find("that graphs have not taken"), std::string_view::npos)
        << full.to_string();
    EXPECT_TRUE(calls.health().ok());
    for (const Gpu::Graph graph : graphs) device.destroy_graph(graph);
    for (size_t i = 0; i < 100; ++i) {  // what they had is free again
      graphs.clear();
      ASSERT_TRUE(capture(i % 50 + 1, graphs).ok());
      device.destroy_graph(graphs[0]);
    }
    graphs.clear();
    ASSERT_TRUE(capture(7, graphs).ok());
    out.assign(50, -1);
    ASSERT_TRUE(device.launch_graph(graphs[0], streams[0]).ok());
    ASSERT_TRUE(device.synchronize(streams[0]).ok());
    EXPECT_EQ(std::count(out.begin(), out.end(), 1), 7);
    device.destroy_graph(graphs[0]);
    EXPECT_FALSE(calls.in_graphs());
  });
}

TEST_P(Engines, RefuseWrongArguments) {
  run_ranks(world(), [](Rank, Gpu&, DeviceCalls& calls, Gpu::Stream(&streams)[2]) {
    int32_t x = 0;
    const Status root = calls.enqueue(
        {.kind = Kind::broadcast, .input = &x, .output = &x, .count = 1, .root = 7}, streams[0]);
    EXPECT_NE(root.message().find("root is 7"), std::string_view::npos);
    const Transfer nowhere = send_to(5, &x, 1, DataType::int32);
    EXPECT_FALSE(calls.enqueue(std::span(&nowhere, 1), streams[0]).ok());
    EXPECT_TRUE(calls.health().ok());
  });
}

// Which calls have ended is known without waiting; the report names the first that did not.
TEST_P(Engines, TellWhichHaveEnded) {
  World world = Engines::world();
  world.options.timeout_s = 1;  // also for the calls that are to end, on a busy machine
  run_ranks(world, [](Rank me, Gpu& device, DeviceCalls& calls, Gpu::Stream(&streams)[2]) {
    int32_t x = 1;
    const auto reduce = [&](size_t count, Gpu::Stream stream) {
      DeviceCalls::Launched launched;
      const Call call{.kind = Kind::all_reduce,
                      .input = &x,
                      .output = &x,
                      .count = count,
                      .type = DataType::int32};
      EXPECT_TRUE(calls.enqueue(call, stream, &launched).ok());
      EXPECT_FALSE(launched.algorithm.empty());
      return launched.number;
    };
    EXPECT_EQ(*calls.ended(), 0u);
    for (uint64_t i = 1; i <= 6; ++i) ASSERT_EQ(reduce(1, streams[i % 2]), i);
    for (Gpu::Stream stream : streams) ASSERT_TRUE(device.synchronize(stream).ok());
    EXPECT_EQ(*calls.ended(), 6u);
    EXPECT_TRUE(*calls.idle());
    if (me == 1) return;
    const Transfer alone = send_to(me, &x, 0, DataType::int32);
    ASSERT_TRUE(calls.enqueue(std::span(&alone, 1), streams[0]).ok());  // ends
    ASSERT_EQ(reduce(1, streams[1]), 8u);                               // gives up
    ASSERT_TRUE(calls.enqueue({.kind = Kind::barrier}, calls.own_stream()).ok());
    settle(device, calls, streams);
    ASSERT_TRUE(device.synchronize(calls.own_stream()).ok());
    EXPECT_EQ(*calls.ended(), 7u);
    EXPECT_TRUE(*calls.idle());
    const Status failed = calls.health();
    EXPECT_TRUE(
        failed.message().starts_with("all_reduce(count=1, int32, sum): rank 0's GPU waited"))
        << failed.to_string();
  });
}

// The last rank never calls.
void expect_failure(const World& world, Code code, const std::function<void(DeviceCalls&)>& act) {
  run_ranks(world, [&](Rank me, Gpu& device, DeviceCalls& calls, Gpu::Stream(&streams)[2]) {
    if (me == calls.size() - 1) return;
    ASSERT_TRUE(calls.enqueue({.kind = Kind::barrier}, streams[0]).ok());
    act(calls);
    settle(device, calls, streams);
    const Status failed = calls.health();
    EXPECT_EQ(failed.code(), code) << failed.to_string();
    EXPECT_EQ(failed.peer(), calls.size() - 1) << failed.to_string();
    EXPECT_EQ(calls.enqueue({.kind = Kind::barrier}, streams[0]).to_string(), failed.to_string());
  });
}

TEST_P(Engines, NameWhoDoesNotCome) {
  World world = Engines::world();
  world.options.timeout_s = 0.3;
  expect_failure(world, Code::timeout, [](DeviceCalls&) {});
}

TEST_P(Engines, EndWhenAborted) {
  expect_failure(world(), Code::aborted, [](DeviceCalls& calls) {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // its stream waits for them then
    EXPECT_TRUE(calls.health().ok());
    calls.abort();
  });
}

}  // namespace
}  // namespace weft::test
