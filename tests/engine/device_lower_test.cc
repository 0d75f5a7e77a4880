// Device programs, run by the reference interpreter between ranks in one process: every collective
// by every algorithm, calls behind each other and replayed, against the naive oracle.
#include "engine/executor/device_lower.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

#include "engine/algorithms/catalog.h"
#include "tests/support/device_cases.h"
#include "tests/support/sanitized.h"

namespace weft::test {
namespace {

constexpr int kRanks[] = {1, 2, 3, 5, 6, 7, 8, 12};

void run_calls(std::span<const DeviceCase> forms, int ranks, uint64_t seed) {
  Draw draw(seed);
  DeviceWorld world(small_device_shape(ranks), seed);
  const Status added = add_calls(world, forms, draw);
  ASSERT_TRUE(added.ok()) << added.to_string();
  if (draw.below(3) == 0) world.use_workers(1 + static_cast<uint32_t>(draw.below(2)));
  ASSERT_EQ(world.run(draw.seed()), "") << "seed " << seed;
}

class Forms : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Forms, testing::ValuesIn(kRanks));

TEST_P(Forms, GiveWhatTheOracleGives) {
  const int ranks = GetParam();
  const int times = kSanitized || ranks > 6 ? 1 : 3;
  for (int time = 0; time < times; ++time) {
    std::vector<DeviceCase> all = device_forms(ranks);
    std::shuffle(all.begin(), all.end(), std::mt19937_64(time));
    if (kSanitized) all.resize(std::min<size_t>(all.size(), 60));
    for (size_t begin = 0; begin < all.size(); begin += 5) {
      const size_t calls = std::min<size_t>(5, all.size() - begin);
      const uint64_t seed = static_cast<uint64_t>(time) * 1000 + begin;
      ASSERT_NO_FATAL_FAILURE(run_calls({all.data() + begin, calls}, ranks, seed));
    }
  }
}

// Calls behind each other with buffers of their own, which nobody may touch, or take for those of
// another call, once their rank is through.
class BetweenBuffers : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, BetweenBuffers, testing::Range(1, 9));

TEST_P(BetweenBuffers, GiveWhatTheOracleGives) {
  const int ranks = GetParam();
  for (uint64_t seed = 0; seed < (kSanitized ? 5 : 30); ++seed)
    ASSERT_NO_FATAL_FAILURE(run_calls(forms_between_buffers(ranks, 6, seed), ranks, seed));
}

// Groups have a stream of their own, so they meet collectives in any order.
TEST(DevicePrograms, LetGroupsRunBesideCollectives) {
  const int ranks = 4;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Draw draw(seed);
    DeviceWorld world(small_device_shape(ranks), seed);
    for (int i = 0; i < 6; ++i) {
      const char* const algorithm = i % 2 == 0 ? "exchange" : "ring";
      const Kind kind = i % 2 == 0 ? Kind::exchange : Kind::all_reduce;
      DeviceCase c{.algorithm = find_algorithm(algorithm),
                   .shape = {.kind = kind, .ranks = ranks, .count = draw.below(5000)}};
      c.segment_bytes = 256;
      ASSERT_TRUE(world.add(c).ok());
    }
    ASSERT_EQ(world.run(draw.seed()), "") << "seed " << seed;
  }
}

TEST(DevicePrograms, MoveLargeMessagesInTheUsualMemory) {
  for (const char* const algorithm : {"ring", "zero_copy", "window_two_shot", "direct_two_shot"}) {
    DeviceWorld world(DeviceShape{.ranks = 3, .links = 8}, 1);
    const DeviceCase c{
        .algorithm = find_algorithm(algorithm),
        .shape = {.kind = Kind::all_reduce, .ranks = 3, .count = kSanitized ? 99'999u : 999'999u},
        .copies = 4};
    ASSERT_TRUE(world.add(c).ok());
    world.replay();
    EXPECT_EQ(world.run(5), "") << algorithm;
  }
}

// The judge itself: whether it finds what lowering could get wrong.
struct Bug {
  const char* name;
  void (*plant)(device::Program&);
};

void for_each_step(const device::Program& p, void (*change)(device::Step&)) {
  for (uint32_t i = 0; i < p.lane_count; ++i)
    for (uint32_t j = 0; j < p.lanes[i].steps; ++j)
      change(const_cast<device::Step&>(p.steps[p.lanes[i].first_step + j]));
}

void for_each_wait(const device::Program& p, void (*change)(device::Wait&)) {
  for (uint32_t i = 0; i < p.lane_count; ++i)
    for (uint32_t j = 0; j < p.lanes[i].steps; ++j) {
      const device::Step& step = p.steps[p.lanes[i].first_step + j];
      for (uint32_t k = 0; k < step.waits; ++k)
        change(const_cast<device::Wait&>(p.waits[step.first_wait + k]));
    }
}

void forget_peers(device::Program& p) {
  for (Rank r = 0; p.windowed && r < p.ranks; ++r)
    const_cast<const uint64_t**>(p.begun)[r] = nullptr;
}

constexpr Bug kBugs[] = {
    {"no wait", [](device::Program& p) { for_each_wait(p, [](device::Wait& w) { w.lag = 99; }); }},
    {"a lag too far",
     [](device::Program& p) { for_each_wait(p, [](device::Wait& w) { w.lag += w.lag > 0; }); }},
    {"no wait for a lease", forget_peers},
    {"one lease", [](device::Program& p) { p.lease_bytes = 0; }},
    {"one half", [](device::Program& p) { p.half_bytes = 0; }},
    {"chunks of a message in one place",
     [](device::Program& p) { for_each_step(p, [](device::Step& s) { s.slot_offset = 0; }); }},
    {"packets taken for plain data",
     [](device::Program& p) { for_each_step(p, [](device::Step& s) { s.boxed = 0; }); }},
    {"no packets for the last reader",
     [](device::Program& p) {
       for_each_step(p, [](device::Step& s) {
         s.targets -= s.boxes > 0;
         s.boxes -= s.boxes > 0;
       });
     }},
    {"no divisor", [](device::Program& p) { p.divisor = 1; }},
    {"rounds by the wrong copy", [](device::Program& p) { p.copies += p.copies > 1; }},
    {"segments that differ",
     [](device::Program& p) { p.segment -= p.segment > 16 && p.rank == 1 ? 16 : 0; }},
};

constexpr Bug kBugsBetweenBuffers[] = {
    {"nobody told where buffers are", [](device::Program& p) { p.tell = nullptr; }},
    {"no wait before buffers are touched",
     [](device::Program& p) {
       for_each_step(p, [](device::Step& s) { s.waits = s.sources > 0 ? 0 : s.waits; });
     }},
    {"no wait before a rank leaves",
     [](device::Program& p) {
       for_each_step(p, [](device::Step& s) { s.waits = s.sources == 0 ? 0 : s.waits; });
     }},
};

constexpr int kRanksWithBugs = 4;

bool found(const Bug& bug, std::span<const DeviceCase> forms, uint64_t seed) {
  const int ranks = kRanksWithBugs;
  Draw draw(seed);
  DeviceWorld world(small_device_shape(ranks), seed);
  for (const DeviceCase& form : forms) {
    DeviceCase c = draw.detail(form);
    c.shape.count = 260;
    if (!world.add(c).ok()) return false;
    world.replay();
  }
  world.change(bug.plant);
  return !world.run(draw.seed()).empty();
}

void expect_found(std::span<const Bug> bugs,
                  const std::function<std::vector<DeviceCase>(uint64_t)>& forms) {
  for (uint64_t seed = 0; seed < 4; ++seed)
    EXPECT_FALSE(found({"none", [](device::Program&) {}}, forms(seed), seed)) << seed;
  for (const Bug& bug : bugs) {
    uint64_t seed = 0;
    while (seed < 60 && !found(bug, forms(seed), seed)) ++seed;
    EXPECT_LT(seed, 60u) << bug.name;
  }
}

TEST(DevicePrograms, AreFoundWrongWithPlantedBugs) {
  expect_found(kBugs, [](uint64_t seed) {
    std::vector<DeviceCase> all = device_forms(kRanksWithBugs);
    std::shuffle(all.begin(), all.end(), std::mt19937_64(seed));
    all.resize(12);
    return all;
  });
  expect_found(kBugsBetweenBuffers,
               [](uint64_t seed) { return forms_between_buffers(kRanksWithBugs, 12, seed); });
}

// -- what cannot be -------------------------------------------------------------------------------

Status refusal(DeviceCase c, const DeviceShape& shape) {
  DeviceWorld world(shape, 1);
  return world.add(c);
}

DeviceCase all_reduce_by(const char* algorithm, int ranks) {
  return {.algorithm = find_algorithm(algorithm),
          .shape = {.kind = Kind::all_reduce, .ranks = ranks, .count = 1000}};
}

TEST(DevicePrograms, AreRefusedWhereTheMemoryIsTooSmall) {
  DeviceShape shape = small_device_shape(4);
  DeviceCase c = all_reduce_by("ring", 4);
  c.copies = 25;
  c.segment_bytes = 64;
  c.shape.count = 2000;
  EXPECT_NE(refusal(c, shape).message().find("uses link "), std::string::npos);

  c = all_reduce_by("window_two_shot", 4);
  c.copies = 70;
  c.segment_bytes = 64;
  c.shape.count = 6000;
  shape.window_bytes = 1 << 20;
  EXPECT_NE(refusal(c, shape).message().find("uses signal cell"), std::string::npos);

  c = all_reduce_by("window_two_shot", 4);
  shape.window_bytes = 128;
  EXPECT_NE(refusal(c, shape).message().find("too small"), std::string::npos);
}

TEST(DevicePrograms, AreRefusedWhereAPeersMemoryCannotBeUsed) {
  DeviceCase c = all_reduce_by("zero_copy", 4);
  c.op = ReduceOp::premulsum;
  EXPECT_EQ(refusal(c, small_device_shape(4)).code(), Code::unsupported);

  Algorithm hasty = *c.algorithm;
  hasty.build = [build = hasty.build](const Collective& collective, Rank me, const Parameters& p) {
    Program program = build(collective, me, p);
    for (Lane& lane : program.lanes)
      for (Step& step : lane.steps) step.waits.clear();
    return program;
  };
  c = all_reduce_by("zero_copy", 4);
  c.algorithm = &hasty;
  const Status status = refusal(c, small_device_shape(4));
  EXPECT_NE(status.message().find("touches rank 1's memory in a step that does not wait for that"),
            std::string::npos)
      << status.to_string();
}

// By name; what weft chooses has fewer.
TEST(DevicePrograms, AreRefusedWhereKernelsHaveNoRoom) {
  const DeviceCase sum = all_reduce_by("window_one_shot", 66);
  const Status many = refusal(sum, small_device_shape(66));
  EXPECT_NE(many.message().find("a step of 66 sources, "), std::string::npos) << many.to_string();
  for (const int ranks : {66, 67}) {
    DeviceCase packets{.algorithm = find_algorithm("window_one_shot"),
                       .shape = {.kind = Kind::broadcast, .ranks = ranks, .count = 5},
                       .protocol = Protocol::ll};
    const Status status = refusal(packets, small_device_shape(ranks));
    EXPECT_EQ(status.ok(), ranks == 66) << status.to_string();
    EXPECT_EQ(status.message().find("66 boxes of packets") != std::string::npos, ranks == 67)
        << status.to_string();
  }
}

// There are no sums of booleans, but they are moved.
TEST(DevicePrograms, AreOfATypeThatHasAKernel) {
  DeviceCase c{.algorithm = find_algorithm("ring"),
               .shape = {.kind = Kind::all_gather, .ranks = 3, .count = 5},
               .type = DataType::boolean};
  DeviceWorld world(small_device_shape(3), 1);
  ASSERT_TRUE(world.add(c).ok());
  world.change([](device::Program& p) { EXPECT_TRUE(defined(p.op, p.type)); });
  EXPECT_EQ(world.run(1), "");
}

// Each thread of a block looks after one thing that a step waits for, or one rank's leases.
TEST(DevicePrograms, HaveAThreadForAllThatTheyWaitFor) {
  for (const int ranks : {3, 129, 300, 510, 513}) {
    const Algorithm& algorithm = *find_algorithm("window_one_shot");
    DeviceShape shape = small_device_shape(ranks);
    shape.links = 1;
    const Collective collective{Kind::broadcast, ranks, 0, false};
    PlanRequest request;
    request.algorithm = algorithm.name;
    request.collective = collective;
    request.segment_bytes = 1024;
    for (const Rank me : {0, 1}) {
      const Program program = algorithm.build(collective, me, {});
      const Layout layout(collective, me, {.kind = Kind::broadcast, .count = 1}, program.pieces);
      std::byte memory{};  // only addresses are made
      const DeviceMap map{
          me, DeviceMemoryLayout(shape), {std::vector<std::byte*>(size_t(ranks), &memory)}};
      const auto image = lower(request, program, layout, map);
      ASSERT_EQ(image.ok(), ranks <= static_cast<int>(device::kMostThreads))
          << image.status().to_string();
      if (!image.ok()) continue;
      std::vector<std::byte> tables(image->table_bytes());
      const device::Program placed = image->place(tables, tables.data(), nullptr);
      size_t most = static_cast<size_t>(ranks);
      for (const Lane& lane : program.lanes)
        for (const Step& step : lane.steps) most = std::max(most, step.waits.size() + 2);
      EXPECT_GE(placed.threads, most) << "rank " << me << " of " << ranks;
      EXPECT_LE(placed.threads, device::kMostThreads);
    }
  }
}

// A program is placed where it is told to; nothing in it refers to where it was made.
TEST(DeviceImage, RefersToItsTablesWhereTheyWillLie) {
  const Collective collective{Kind::all_reduce, 3, 0, false};
  PlanRequest request;
  request.algorithm = "ring";
  request.collective = collective;
  request.type = DataType::int32;
  request.segment_bytes = 1024;
  const Call call{.kind = Kind::all_reduce, .count = 100, .type = DataType::int32};
  const Program program = find_algorithm("ring")->build(collective, 0, {});
  const Layout layout(collective, 0, call, program.pieces);
  std::vector<std::byte> memory(DeviceMemoryLayout(small_device_shape(3)).bytes());
  const DeviceMap map{0, DeviceMemoryLayout(small_device_shape(3)), {3, memory.data()}};
  const auto image = lower(request, program, layout, map);
  ASSERT_TRUE(image.ok()) << image.status().to_string();

  std::vector<std::byte> tables(image->table_bytes());
  auto* const device = reinterpret_cast<std::byte*>(uintptr_t{0x7000'0000'0000});
  const device::Program placed = image->place(tables, device, nullptr);
  EXPECT_EQ(reinterpret_cast<const std::byte*>(placed.lanes), device);
  const auto* const sends = reinterpret_cast<const std::byte*>(placed.sends);
  EXPECT_GT(sends, device);
  EXPECT_LE(sends, device + tables.size());
  const auto* lane = reinterpret_cast<const device::Lane*>(tables.data());
  EXPECT_EQ(lane->steps, program.lanes[0].steps.size());
}

}  // namespace
}  // namespace weft::test
