#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "engine/device/choice.h"

namespace weft {
namespace {

DevicePlace at(std::string host, std::string gpu, int64_t process, uint32_t blocks_most = 132) {
  return {std::move(host), std::move(gpu), process, blocks_most, 8};
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

// Streams that share a queue would block each other, whatever waits in it.
TEST(DeviceChoice, RefusesMoreRanksThanQueues) {
  const std::vector<DevicePlace> nine(9, at("a", "0", 7));
  for (const char* wish : {"auto", "persistent", "stream"}) {
    const Status refused = choose_device_engine(nine, wish).status();
    EXPECT_EQ(refused.code(), Code::unsupported);
    EXPECT_NE(refused.message().find("CUDA_DEVICE_MAX_CONNECTIONS"), std::string_view::npos);
  }
  const std::vector<DevicePlace> eight(8, at("a", "0", 7));
  EXPECT_EQ(chosen(eight).engine, DeviceEngine::persistent);
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
