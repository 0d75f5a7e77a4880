#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <vector>

#include "engine/device/choice.h"
#include "tests/support/contains.h"

namespace weft {
namespace {

DevicePlace at(std::string host, std::string gpu, int64_t process, uint32_t blocks_most = 132) {
  return {std::move(host), std::move(gpu), process, blocks_most, kDeviceQueuesMost};
}

DeviceChoice chosen(const std::vector<DevicePlace>& places, std::string_view wish = "auto") {
  const auto choice = choose_device_engine(places, wish);
  EXPECT_TRUE(choice.ok()) << choice.status().to_string();
  return choice.ok() ? *choice : DeviceChoice{};
}

TEST(DeviceChoice, IsPersistentWhereEveryRankHasAGpu) {
  // The same process number on another host is something else.
  const DeviceChoice choice =
      chosen({at("a", "0", 7), at("a", "1", 8), at("b", "2", 7), at("b", "3", 9, 100)});
  EXPECT_EQ(choice.engine, DeviceEngine::persistent);
  EXPECT_EQ(choice.blocks, 100u);  // of the smallest
}

TEST(DeviceChoice, SharesRoomBetweenThreadsOfOneProcess) {
  const DeviceChoice choice =
      chosen({at("a", "0", 7), at("a", "0", 7), at("a", "0", 7), at("a", "1", 7)});
  EXPECT_EQ(choice.engine, DeviceEngine::persistent);
  EXPECT_EQ(choice.blocks, 44u);
}

// Those who play hosts share the GPU all the same.
TEST(DeviceChoice, GoesByTheGpuNotTheHost) {
  const DeviceChoice choice = chosen({at("a", "0", 7), at("b", "0", 7)});
  EXPECT_EQ(choice.engine, DeviceEngine::persistent);
  EXPECT_EQ(choice.blocks, 66u);
  EXPECT_EQ(chosen({at("a", "0", 7), at("b", "0", 8)}).engine, DeviceEngine::stream);
}

TEST(DeviceChoice, IsStreamWhereProcessesShareAGpu) {
  const DeviceChoice choice = chosen({at("a", "0", 7), at("a", "1", 7), at("a", "0", 8)});
  EXPECT_EQ(choice.engine, DeviceEngine::stream);
  EXPECT_NE(choice.reason.find("2 processes share GPU 0"), std::string::npos);
}

TEST(DeviceChoice, IsStreamWhereBlocksDoNotSuffice) {
  EXPECT_EQ(chosen({at("a", "0", 7, 2), at("a", "0", 7, 2), at("a", "0", 7, 2)}).engine,
            DeviceEngine::stream);
}

// So many ranks of a process on one GPU, with so many queues.
std::vector<DevicePlace> threads(size_t ranks, uint32_t queues) {
  std::vector<DevicePlace> places(ranks, at("a", "0", 7));
  for (DevicePlace& place : places) place.queues = queues;
  return places;
}

// Streams that share a queue would block each other, whatever waits in it.
TEST(DeviceChoice, RefusesMoreStreamsThanQueues) {
  constexpr uint32_t kRanksMost = kDeviceQueuesMost / kStreamsOfRank;
  struct Case {
    size_t ranks;
    uint32_t queues;
    std::string_view instead;
  };
  for (const Case& c :
       {Case{3, kDeviceQueues, "set CUDA_DEVICE_MAX_CONNECTIONS=32"},
        Case{2, 2 * kStreamsOfRank - 1, "set CUDA_DEVICE_MAX_CONNECTIONS=32"},
        Case{kRanksMost + 1, kDeviceQueuesMost, "give a process at most 8 ranks on a GPU"}})
    for (const char* wish : {"auto", "persistent", "stream"}) {
      const Status refused = choose_device_engine(threads(c.ranks, c.queues), wish).status();
      EXPECT_EQ(refused.code(), Code::unsupported);
      EXPECT_TRUE(test::contains(refused, c.instead)) << refused.to_string();
    }
  for (const char* wish : {"auto", "persistent", "stream"}) {
    chosen(threads(2, 2 * kStreamsOfRank), wish);
    chosen(threads(kRanksMost, kDeviceQueuesMost), wish);
  }
}

// Its streams are in the order of its calls, but for the one that ends waits.
TEST(DeviceChoice, LetsARankAloneShareQueuesWhereNoStreamWaits) {
  EXPECT_EQ(chosen(threads(1, 1)).engine, DeviceEngine::persistent);
  const Status refused = choose_device_engine(threads(1, 1), "stream").status();
  EXPECT_EQ(refused.code(), Code::unsupported);
}

TEST(DeviceQueues, AreThoseOfTheEnvironment) {
  const auto with = [](std::string value) {
    Environment env;
    env.set("CUDA_DEVICE_MAX_CONNECTIONS", std::move(value));
    return device_queues(env);
  };
  EXPECT_EQ(device_queues(Environment()), kDeviceQueues);
  EXPECT_EQ(with("1"), 1u);
  EXPECT_EQ(with("32"), 32u);
  for (const char* none : {"0", "33", "many", ""}) EXPECT_EQ(with(none), kDeviceQueues);
}

TEST(DeviceQueues, AreAskedForOnce) {
  constexpr const char* kName = "CUDA_DEVICE_MAX_CONNECTIONS";
  ::unsetenv(kName);  // NOLINT(concurrency-mt-unsafe): one thread
  ask_for_device_queues();
  EXPECT_EQ(device_queues(Environment::of_process()), kDeviceQueuesMost);
  ::setenv(kName, "12", 1);  // NOLINT(concurrency-mt-unsafe)
  ask_for_device_queues();
  EXPECT_EQ(device_queues(Environment::of_process()), 12u);
}

TEST(DeviceChoice, RefusesStreamsThatCannotWait) {
  std::vector<DevicePlace> places{at("a", "0", 7), at("a", "0", 8)};
  places[1].cell_waits = false;
  const Status refused = choose_device_engine(places, "auto").status();
  EXPECT_EQ(refused.code(), Code::unsupported);
  EXPECT_NE(refused.message().find("cannot wait for memory"), std::string_view::npos);
  places[1].process = 7;  // then no stream has to
  EXPECT_EQ(chosen(places).engine, DeviceEngine::persistent);
}

TEST(DeviceChoice, FollowsAWishThatIsPossible) {
  const std::vector<DevicePlace> processes{at("a", "0", 7), at("a", "0", 8)};
  EXPECT_EQ(chosen(processes, "persistent").engine, DeviceEngine::persistent);
  EXPECT_EQ(chosen({at("a", "0", 7)}, "stream").engine, DeviceEngine::stream);
  const std::vector<DevicePlace> crowd(3, at("a", "0", 7, 2));
  EXPECT_EQ(choose_device_engine(crowd, "persistent").status().code(), Code::unsupported);
  EXPECT_EQ(choose_device_engine(crowd, "fast").status().code(), Code::invalid_argument);
}

// Against the definition, and whichever rank asks: it does not matter who is which rank.
TEST(DeviceChoice, IsTheSameInEveryOrder) {
  std::mt19937_64 random(3);
  int persistent = 0;
  for (int i = 0; i < 2000; ++i) {
    std::vector<DevicePlace> places(1 + random() % 6);
    for (DevicePlace& place : places)
      place =
          at(std::string(1, static_cast<char>('a' + random() % 2)), std::to_string(random() % 4),
             static_cast<int64_t>(random() % 2), 1 + static_cast<uint32_t>(random() % 8));
    const DeviceChoice choice = chosen(places);
    const bool apart = std::all_of(places.begin(), places.end(), [&](const DevicePlace& p) {
      return std::all_of(places.begin(), places.end(), [&](const DevicePlace& q) {
        return p.gpu != q.gpu || p.process == q.process;
      });
    });
    const bool fits = std::all_of(places.begin(), places.end(), [&](const DevicePlace& p) {
      return std::count_if(places.begin(), places.end(), [&](const DevicePlace& q) {
               return p.gpu == q.gpu && p.process == q.process;
             }) <= p.blocks_most;
    });
    EXPECT_EQ(choice.engine == DeviceEngine::persistent, apart && fits);
    EXPECT_GE(choice.blocks, 1u);
    persistent += choice.engine == DeviceEngine::persistent;
    std::shuffle(places.begin(), places.end(), random);
    const DeviceChoice other = chosen(places);
    EXPECT_EQ(other.engine, choice.engine);
    EXPECT_EQ(other.blocks, choice.blocks);
  }
  EXPECT_GT(persistent, 100);
  EXPECT_LT(persistent, 1900);
}

}  // namespace
}  // namespace weft
