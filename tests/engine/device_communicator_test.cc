// Communicators that take device memory: all ranks in this process, on a GPU made of threads.
#include <gtest/gtest.h>

#include <thread>

#include "tests/support/device_ranks.h"
#include "tests/support/device_resource.h"
#include "tests/support/emulated_device.h"
#include "tests/support/oracle.h"
#include "tests/support/with_memory.h"

namespace weft::test {
namespace {

enum class Manner { run, start, enqueue };

void expect_right(const Here& here, const Shape& shape, bool in_place, Manner manner, uint64_t salt,
                  std::pmr::memory_resource* where, ReduceOp op = ReduceOp::sum) {
  CallMemory memory(shape, here.me, in_place, op, 0, where);
  memory.fill(salt);
  Status status;
  if (manner == Manner::run) {
    status = here.comm.run(memory.call());
  } else if (manner == Manner::start) {
    status = here.comm.start(memory.call()).wait();
  } else {
    Gpu::Stream stream = here.streams[salt % 2];
    status = here.comm.enqueue(memory.call(), stream);
    ASSERT_TRUE(here.device.synchronize(stream).ok());
  }
  ASSERT_TRUE(status.ok()) << status.to_string();
  ASSERT_EQ(memory.compare(), "") << name(shape.kind) << " of " << shape.count;
}

std::vector<Shape> shapes(int ranks) {
  std::vector<Shape> all;
  for (int kind = 0; kind < kKinds; ++kind)
    for (const size_t count : {size_t{0}, size_t{1}, size_t{700}}) {
      const Shape shape{
          .kind = static_cast<Kind>(kind), .ranks = ranks, .root = ranks - 1, .count = count};
      if (shape.kind != Kind::exchange && shape.kind != Kind::barrier) all.push_back(shape);
    }
  return all;
}

class Ranks : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(DeviceCommunicator, Ranks, testing::Values(1, 2, 3));

// By all three ways to call, in and out of place, with host calls in between.
TEST_P(Ranks, GetWhatTheOracleGives) {
  run_ranks({.ranks = GetParam()}, [](const Here& here) {
    uint64_t salt = 0;
    for (const Shape& shape : shapes(here.comm.size()))
      for (const bool in_place : {false, true})
        for (const Manner manner : {Manner::run, Manner::start, Manner::enqueue}) {
          expect_right(here, shape, in_place, manner, ++salt, &here.memory);
          if (salt % 8 == 0)
            expect_right(here, shape, in_place, Manner::run, salt,
                         std::pmr::get_default_resource());
        }
    expect_right(here, {.kind = Kind::all_reduce, .ranks = here.comm.size(), .count = 9}, false,
                 Manner::run, 1, &here.memory, ReduceOp::premulsum);
    EXPECT_TRUE(here.comm.health().ok());
    EXPECT_GT(here.comm.stats().calls, salt);
    expect_host_sum(here);
  });
}

// Ranks that read and write nothing go by their pointers.
TEST(DeviceCommunicator, TakesVaryingCountsSomeOfThemZero) {
  run_ranks({.ranks = 3}, [](const Here& here) {
    for (const Manner manner : {Manner::run, Manner::start, Manner::enqueue})
      for (const Kind kind : {Kind::gather, Kind::scatter, Kind::all_gather, Kind::reduce_scatter})
        expect_right(here,
                     {.kind = kind, .ranks = 3, .root = 1, .varying = true, .counts = {0, 5, 300}},
                     false, manner, 3, &here.memory);
    expect_right(here,
                 {.kind = Kind::all_to_all,
                  .ranks = 3,
                  .varying = true,
                  .counts = {0, 0, 0, 0, 3, 40, 0, 2, 1}},
                 false, Manner::run, 3, &here.memory);
    expect_host_sum(here);
  });
}

// Calls of both ways and on both streams, all under way at once.
TEST_P(Ranks, HaveManyCallsUnderWay) {
  run_ranks({.ranks = GetParam()}, [](const Here& here) {
    constexpr size_t kCalls = 24;
    auto values = here.on_device<int32_t>(8, here.me + 1);
    std::vector<int32_t> own(kCalls, here.me + 1), sums(kCalls, 0);
    std::vector<Work> works;
    for (size_t i = 0; i < kCalls; ++i) {
      Call call = sum_call(values.data(), values.data(), 8);
      call.op = ReduceOp::max;  // each reads what the one before wrote
      if (i % 3 == 0)
        works.push_back(here.comm.start(call));
      else
        ASSERT_TRUE(here.comm.enqueue(call, here.streams[i % 2]).ok());
      works.push_back(here.comm.start(sum_call(&own[i], &sums[i])));
    }
    expect_host_sum(here);
    for (const Work& work : works) EXPECT_TRUE(work.wait().ok());
    here.synchronize();
    for (const int32_t value : values) EXPECT_EQ(value, here.comm.size());
    for (const int32_t sum : sums) EXPECT_EQ(sum, sum_of(here.comm.size()));
    EXPECT_TRUE(here.comm.enqueue({.kind = Kind::barrier}, here.streams[0]).ok());
    EXPECT_TRUE(here.comm.barrier().ok());
  });
}

// Of two streams, one made to wait for the other; and all of them waited for at once.
TEST_P(Ranks, PutStreamsBehindEachOther) {
  run_ranks({.ranks = GetParam()}, [](const Here& here) {
    std::vector<int32_t> given(1000, here.me + 1), taken(1000, 0);
    auto values = here.on_device<int32_t>(1000, -1);
    const size_t bytes = 1000 * sizeof(int32_t);
    const Call call = sum_call(values.data(), values.data(), 1000);
    const auto way = [&](const Call& asked) { return here.comm.is_for_stream(asked); };
    EXPECT_TRUE(way(call).ok() && *way(call));
    const Call on_host = sum_call(given.data(), taken.data());
    EXPECT_TRUE(way(on_host).ok() && !*way(on_host));
    EXPECT_FALSE(way(sum_call(values.data(), taken.data())).ok());
    for (int turn = 0; turn < 5; ++turn) {
      ASSERT_TRUE(here.device.copy(values.data(), given.data(), bytes, here.streams[0]).ok());
      ASSERT_TRUE(here.comm.put_behind(here.streams[0], here.streams[1]).ok());
      ASSERT_TRUE(here.comm.enqueue(call, here.streams[1]).ok());
      ASSERT_TRUE(here.comm.put_behind(here.streams[1], here.streams[0]).ok());
      ASSERT_TRUE(here.device.copy(taken.data(), values.data(), bytes, here.streams[0]).ok());
      ASSERT_TRUE(here.comm.synchronize(here.streams[0]).ok());
      EXPECT_EQ(taken, std::vector<int32_t>(1000, sum_of(here.comm.size())));
    }
    ASSERT_TRUE(here.comm.enqueue(call, here.streams[1]).ok());
    ASSERT_TRUE(here.comm.synchronize().ok());
    EXPECT_EQ(values[0], sum_of(here.comm.size()) * here.comm.size());
    const auto device = here.comm.device();
    ASSERT_TRUE(device.ok());
    EXPECT_EQ(device->get(), &here.device);
  });
}

// Whoever drives a host call that has to wait looks after those on the device.
TEST(DeviceCommunicator, EndsCallsBesideAHostCallThatWaits) {
  run_ranks({.ranks = 2}, [](const Here& here) {
    int32_t received = 0;
    std::jthread other([&] {
      if (here.me != 0) return;
      EXPECT_TRUE(here.comm.recv(1, &received, 1, DataType::int32).ok());
    });
    for (int i = 0; i < 5; ++i) {
      auto values = here.on_device<int32_t>(10, here.me + 1);
      EXPECT_TRUE(here.comm.start(sum_call(values.data(), values.data(), 10)).wait().ok());
      EXPECT_EQ(values[9], 3);
      expect_device_sum(here, here.comm);
    }
    const int32_t sent = 7;
    if (here.me == 1) {
      EXPECT_TRUE(here.comm.send(0, &sent, 1, DataType::int32).ok());
    }
    other.join();
    EXPECT_EQ(received, here.me == 0 ? 7 : 0);
    EXPECT_TRUE(here.comm.barrier().ok());
  });
}

TEST_P(Ranks, SendAndReceiveInGroups) {
  run_ranks({.ranks = GetParam()}, [](const Here& here) {
    const int n = here.comm.size();
    for (const Manner manner : {Manner::run, Manner::start, Manner::enqueue}) {
      constexpr size_t kCount = 300;
      auto out = here.on_device<int32_t>(kCount, here.me), in = here.on_device<int32_t>(kCount, -1);
      const std::vector<Transfer> group = {
          send_to((here.me + 1) % n, out.data(), kCount, DataType::int32),
          receive_from((here.me + n - 1) % n, in.data(), kCount, DataType::int32),
          send_to(here.me, nullptr, 0, DataType::int32),
          receive_from(here.me, nullptr, 0, DataType::int32)};
      const Status status = manner == Manner::run     ? here.comm.run(group)
                            : manner == Manner::start ? here.comm.start(group).wait()
                                                      : here.comm.enqueue(group, here.streams[1]);
      ASSERT_TRUE(status.ok()) << status.to_string();
      here.synchronize();
      for (const int32_t value : in) ASSERT_EQ(value, (here.me + n - 1) % n);
    }
    EXPECT_TRUE(here.comm.enqueue(std::span<const Transfer>(), here.streams[0]).ok());
  });
}

TEST(DeviceCommunicator, PartsOfItTakeDeviceMemory) {
  run_ranks({.ranks = 4}, [](const Here& here) {
    auto part = here.comm.split(here.me % 2, -here.me);
    ASSERT_TRUE(part.ok()) << part.status().to_string();
    expect_device_sum(here, **part);
    expect_device_sum(here, here.comm);
    auto some = here.comm.split(here.me == 0 ? -1 : 0, 0);
    ASSERT_TRUE(some.ok()) << some.status().to_string();
    if (*some) expect_device_sum(here, **some);
    EXPECT_TRUE(here.comm.barrier().ok());  // nobody leaves before all have ended
  });
}

void expect_refused(const Status& status, std::initializer_list<std::string_view> words,
                    Code code = Code::invalid_argument) {
  EXPECT_EQ(status.code(), code) << status.to_string();
  for (const std::string_view word : words)
    EXPECT_NE(status.message().find(word), std::string_view::npos) << status.to_string();
}

TEST(DeviceCommunicator, RefusesMemoryOfTheWrongKind) {
  run_ranks({.ranks = 2}, [](const Here& here) {
    auto there = here.on_device<int32_t>(4, 1);
    std::vector<int32_t> elsewhere(4, 1);
    const Call mixed = sum_call(there.data(), elsewhere.data(), 4);
    for (const Status& status : {here.comm.run(mixed), here.comm.start(mixed).wait()})
      expect_refused(status, {"input is device memory", "output is host memory"});
    expect_refused(here.comm.enqueue(mixed, here.streams[0]), {"output is host memory"});
    const Transfer group[] = {send_to(1, elsewhere.data(), 4, DataType::int32),
                              receive_from(1, there.data(), 4, DataType::int32)};
    expect_refused(here.comm.run(group),
                   {"transfer 1 is device memory", "transfer 0 is host memory"});
    expect_refused(here.comm.enqueue(group, here.streams[0]), {"transfer 0 is host memory"});
    const Transfer alone = send_to(here.me, there.data(), 4, DataType::int32);
    expect_refused(here.comm.enqueue(std::span(&alone, 1), here.streams[0]), {"to itself"},
                   Code::mismatch);
    Call wrong = sum_call(there.data(), there.data(), 4);
    wrong.op = static_cast<ReduceOp>(99);
    expect_refused(here.comm.run(wrong), {"op is 99"});
    // Pinned memory is the host's, and within reach.
    const Bytes pinned = here.device.allocate_host(64).take();
    auto* const number = reinterpret_cast<int32_t*>(pinned.data());
    *number = here.me + 1;
    EXPECT_TRUE(here.comm.enqueue(sum_call(number, number), here.streams[0]).ok());
    here.synchronize();
    EXPECT_EQ(*number, 3);
    *number = here.me + 1;
    EXPECT_TRUE(here.comm.run(sum_call(number, elsewhere.data())).ok());
    EXPECT_EQ(elsewhere[0], 3);
    expect_device_sum(here, here.comm);
    EXPECT_TRUE(here.comm.barrier().ok());
    here.device.release_host(pinned);  // which may wait for kernels of the other rank
  });
}

// Another GPU's memory is neither the communicator's nor the host's.
TEST(DeviceCommunicator, RefusesMemoryOfAnotherGpu) {
  emulator::Device gpu(4);
  const auto other = emulated_device(gpu, 4, 7);
  DeviceResource memory(*other);
  run_ranks({.ranks = 2}, [&memory](const Here& here) {
    auto mine = here.on_device<int32_t>(4, 1);
    std::pmr::vector<int32_t> foreign(4, 1, &memory);
    const Call call = sum_call(mine.data(), foreign.data(), 4);
    for (const Status& status :
         {here.comm.run(call), here.comm.start(call).wait(),
          here.comm.enqueue(call, here.streams[0]), here.comm.is_for_stream(call).status()})
      expect_refused(status, {"output: it is memory of GPU 7, and the communicator's is GPU 0"});
    Call scaled = sum_call(mine.data(), mine.data(), 4);
    scaled.op = ReduceOp::premulsum;
    scaled.scalar = foreign.data();
    expect_refused(here.comm.enqueue(scaled, here.streams[0]), {"scalar: it is memory of GPU 7"});
    expect_device_sum(here, here.comm);
    EXPECT_TRUE(here.comm.barrier().ok());
  });
}

void expect_no_device(const Status& status, std::string_view why) {
  EXPECT_EQ(status.code(), Code::unsupported) << status.to_string();
  EXPECT_EQ(status.peer(), 1) << status.to_string();
  EXPECT_NE(status.message().find(why), std::string_view::npos) << status.to_string();
}

// It works on the host, and says why not on the device.
void expect_host_only(const World& world, std::string_view why) {
  create_ranks(world, [&](Rank r, Rendezvous& meet, const CreateConfig& config) {
    auto made = create_communicator(meet, config);
    ASSERT_TRUE(made.ok()) << made.status().to_string();
    int32_t x = 1, sum = 0;
    EXPECT_TRUE((*made)->run(sum_call(&x, &sum)).ok());
    EXPECT_EQ(sum, world.ranks);
    expect_no_device((*made)->enqueue(sum_call(&x, &sum), nullptr), why);
    const Transfer alone = send_to(r, &x, 1, DataType::int32);
    expect_no_device((*made)->enqueue(std::span(&alone, 1), nullptr), why);
    if (!config.device) return;
    const auto memory = static_cast<WithMemory&>(*config.device).memory();
    std::pmr::vector<int32_t> there(1, 1, memory.get());
    const Call call = sum_call(there.data(), there.data());
    expect_no_device((*made)->run(call), why);
    expect_no_device((*made)->start(call).wait(), why);
    EXPECT_TRUE((*made)->health().ok());
  });
}

void expect_not_made(const World& world, std::string_view why) {
  create_ranks(world, [&](Rank, Rendezvous& meet, const CreateConfig& config) {
    expect_no_device(create_communicator(meet, config).status(), why);
  });
}

// What would run goes by the memory, and an algorithm that does not serve the call is an error.
TEST(DeviceCommunicator, ExplainsCallsOnDeviceMemory) {
  World world{.ranks = 2};
  world.options.algorithm = "ring";
  run_ranks(world, [](const Here& here) {
    auto there = here.on_device<int32_t>(100, 1);
    std::vector<int32_t> at_home(100, 1);
    const auto device = here.comm.explain(sum_call(there.data(), there.data(), 100));
    ASSERT_TRUE(device.ok()) << device.status().to_string();
    EXPECT_EQ(device->algorithm, "ring");
    EXPECT_TRUE(device->transports == "gpu" || device->transports == "gpu+tcp");
    const auto host = here.comm.explain(sum_call(at_home.data(), at_home.data(), 100));
    ASSERT_TRUE(host.ok()) << host.status().to_string();
    Call gather = sum_call(there.data(), there.data(), 50);
    gather.kind = Kind::gather;
    EXPECT_EQ(here.comm.explain(gather).status().code(), Code::unsupported);
  });
}

TEST(DeviceCommunicator, SaysWhichRankHasNoDevice) {
  World world{.ranks = 3, .without = 1};
  const std::string_view why =
      "rank 1 has no device for calls on device memory: its GPU is at home";
  expect_host_only(world, why);
  world.options.device = "0";
  expect_not_made(world, why);
}

TEST(DeviceCommunicator, SpansHosts) {
  World world{.ranks = 5, .hosts = {"left", "right", "right", "left", "far"}};
  world.options.device = "0";
  run_ranks(world, [](const Here& here) {
    auto there = here.on_device<int32_t>(100, 1);
    const auto how = here.comm.explain(sum_call(there.data(), there.data(), 100));
    ASSERT_TRUE(how.ok()) << how.status().to_string();
    EXPECT_EQ(how->transports, "gpu+tcp");
    for (int i = 0; i < 20; ++i) expect_device_sum(here, here.comm);
    expect_host_sum(here);
    auto part = here.comm.split(here.me % 2, here.me);
    ASSERT_TRUE(part.ok()) << part.status().to_string();
    expect_device_sum(here, **part);
    // Its memory goes, for which CUDA waits, while other parts' calls may want to go on.
    EXPECT_TRUE(here.comm.barrier().ok());
  });
}

// TCP does not lead from one GPU's memory into another's.
TEST(DeviceCommunicator, IsNotMadeWhereItInsistsOnRdma) {
  World world{.ranks = 2, .hosts = {"left", "right"}};
  world.options.device = "0";
  world.options.gpu_direct = "on";
  create_ranks(world, [](Rank, Rendezvous& meet, const CreateConfig& config) {
    const Status status = create_communicator(meet, config).status();
    EXPECT_EQ(status.code(), Code::unsupported) << status.to_string();
    EXPECT_NE(status.message().find("rank 0: tcp takes no memory of GPUs"), std::string_view::npos)
        << status.to_string();
  });
}

// -- which way a call takes -----------------------------------------------------------------------

TEST(DeviceWay, GoesByWhatACallReadsAndWrites) {
  emulator::Device gpu(1);
  const std::shared_ptr<Gpu> device = emulated_device(gpu, 1);
  DeviceWay way(3, 1, device, nullptr, unsupported("none"), [] {});
  DeviceResource memory(*device);
  std::pmr::vector<int32_t> on(8, 0, &memory);
  std::vector<int32_t> off(8, 0);
  const auto takes = [&](const Call& call) {
    const Result<bool> taken = way.takes(call);
    EXPECT_TRUE(taken.ok()) << taken.status().to_string();
    return taken.ok() && *taken;
  };
  EXPECT_TRUE(takes(sum_call(on.data(), on.data(), 8)));
  EXPECT_FALSE(takes(sum_call(off.data(), off.data(), 8)));
  EXPECT_FALSE(takes(sum_call(on.data(), on.data(), 0)));  // known by all to be empty
  EXPECT_FALSE(takes({.kind = Kind::barrier, .input = on.data()}));
  // What is not read or written does not count ...
  EXPECT_TRUE(
      takes({.kind = Kind::broadcast, .input = off.data(), .output = on.data(), .count = 8}));
  EXPECT_TRUE(takes({.kind = Kind::reduce, .input = on.data(), .output = off.data(), .count = 8}));
  // ... unless there is nothing else.
  const Call nothing{.kind = Kind::gather, .count = 0, .varying = true};
  Call with = nothing;
  EXPECT_FALSE(takes(with));
  with.input = off.data();
  EXPECT_FALSE(takes(with));
  with.output = on.data();
  EXPECT_TRUE(takes(with));
  EXPECT_FALSE(way.takes(sum_call(off.data(), on.data(), 8)).ok());
  EXPECT_EQ(way.start(sum_call(on.data(), on.data(), 8), {}).wait().message(), "none");
}

}  // namespace
}  // namespace weft::test
