// The whole engine over the simulated medium: all ranks in one thread, virtual time, everything
// from a seed. A failing seed repeats exactly. Random calls, with faults and without, are those of
// tests/chaos.
#include <gtest/gtest.h>

#include "engine/algorithms/algorithm.h"
#include "tests/support/sanitized.h"
#include "tests/support/sim_call.h"

namespace weft::test {
namespace {

constexpr double kTimeout_s = 10;  // virtual
const std::vector<int> kRankCounts =
    kSanitized ? std::vector{2, 3, 6} : std::vector{1, 2, 3, 4, 5, 6, 7, 8, 9, 12};

// Counts that no number of ranks divides, empty blocks, one round and many.
std::vector<Shape> shapes_for(Kind kind, int ranks) {
  std::vector<Shape> shapes;
  const Rank root = has_root(kind) ? ranks - 1 : 0;
  for (const size_t count : {1, 7, 501, 4999})
    shapes.push_back({.kind = kind, .ranks = ranks, .root = root, .count = count});
  if (kind != Kind::all_gather && kind != Kind::reduce_scatter) return shapes;
  Shape uneven{.kind = kind, .ranks = ranks, .varying = true};
  for (Rank r = 0; r < ranks; ++r)
    uneven.counts.push_back(r % 3 == 1 ? 0 : static_cast<size_t>(r) * 97 % 300);
  shapes.push_back(uneven);
  return shapes;
}

void run_algorithm(SimWorld& world, const Algorithm& algorithm, int ranks) {
  for (int kind = 0; kind < kKinds; ++kind) {
    const Collective c{static_cast<Kind>(kind), ranks, 0, false};
    if (c.kind == Kind::barrier || !algorithm.suits(c)) continue;
    for (const Shape& shape : shapes_for(c.kind, ranks)) {
      SimCall trial(world, shape, 1);
      ASSERT_TRUE(world.finish(trial.works)) << name(c.kind) << " hangs";
      for (Rank r = 0; r < ranks; ++r) {
        ASSERT_TRUE(trial.works[r].error().ok()) << trial.works[r].error().to_string();
        ASSERT_TRUE(trial.right(r)) << name(c.kind) << " of " << shape.count << ", rank " << r;
      }
    }
  }
}

TEST(Simulation, EveryAlgorithmServesEveryNumberOfRanks) {
  uint64_t seed = 0;
  for (const Algorithm& algorithm : catalog())
    for (const int ranks : kRankCounts)
      for (const size_t slot : {0, 512}) {
        if (algorithm.name == "exchange" || (algorithm.windows && ranks == 1)) continue;
        if (algorithm.registered) continue;  // no memory is shared here
        SimOptions sim{.seed = ++seed, .windows = algorithm.windows};
        if (seed / 2 % 2 == 0) sim.traits = {};
        Options options;
        options.timeout_s = kTimeout_s;
        options.slot_bytes = slot;
        options.algorithm = algorithm.name;
        // Not with counts by rank.
        if (algorithm.readable || algorithm.hands_back) options.algorithm += ",auto";
        options.radix = algorithm.radix ? 2 + static_cast<int>(seed % 3) : 0;
        SimWorld world(ranks, sim, options);
        run_algorithm(world, algorithm, ranks);
        ASSERT_FALSE(HasFailure()) << algorithm.name << " on " << ranks << ", slot " << slot;
      }
}

// Half a minute of virtual time without a peer is worth a line, and again when it gets long.
TEST(Simulation, LongWaitsAreReported) {
  Options options;
  options.timeout_s = 100;
  SimWorld world(2, {.seed = 3}, options);
  int value = 0;
  const Transfer receive[] = {receive_from(1, &value, 1, DataType::int32)};
  const Work works[] = {world.engine(0).start(receive)};
  testing::internal::CaptureStderr();
  EXPECT_TRUE(world.finish(works));
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(works[0].error().code(), Code::timeout);
  EXPECT_NE(log.find("recv from 1"), std::string::npos) << log;
  EXPECT_NE(log.find("has waited 30 s for rank 1"), std::string::npos) << log;
  EXPECT_NE(log.find("has waited 90 s for rank 1"), std::string::npos) << log;
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 2) << log;
}

// Neither what rank 0 said every second while it waited for rank 1, nor that rank 1 was elsewhere
// all the time, keeps from it that rank 0 has failed.
TEST(Simulation, WhoComesBackAfterALongTimeHearsOfTheFailureAtOnce) {
  Options options;
  options.timeout_s = 300;
  SimWorld world(2, {.seed = 4}, options);
  int value = 0, sum = 0;
  const Call call{.kind = Kind::all_reduce,
                  .input = &value,
                  .output = &sum,
                  .count = 1,
                  .type = DataType::int32};
  const Work failed[] = {world.engine(0).start(call)};
  ASSERT_TRUE(world.finish(failed));
  EXPECT_EQ(failed[0].error().code(), Code::timeout);
  const int64_t back_ns = world.net().clock().now_ns();
  const Work late[] = {world.engine(1).start(call), world.engine(1).start(call)};
  ASSERT_TRUE(world.finish(late));
  EXPECT_EQ(late[1].error().code(), Code::timeout);
  EXPECT_LT(world.net().clock().now_ns() - back_ns, 1'000'000'000);
}

TEST(Simulation, TheSameSeedGivesTheSameRun) {
  const auto arrivals = [] {
    SimWorld world(4, {.seed = 5}, Options{});
    std::vector<uint64_t> seen;
    for (uint64_t call = 0; call < 5; ++call) {
      SimCall trial(world, {.kind = Kind::all_reduce, .ranks = 4, .count = 20000}, call);
      EXPECT_TRUE(world.finish(trial.works));
      seen.push_back(world.net().arrivals());
      seen.push_back(static_cast<uint64_t>(world.net().clock().now_ns()));
    }
    return seen;
  };
  EXPECT_EQ(arrivals(), arrivals());
}

}  // namespace
}  // namespace weft::test
