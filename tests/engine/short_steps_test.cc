// Short steps and the steps that they stand for give the same bits, block at the same places, and
// name the same peers.
#include "engine/executor/short_steps.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <random>
#include <thread>

#include "engine/algorithms/algorithm.h"
#include "engine/arrange.h"
#include "engine/executor/plan.h"
#include "kernels/claim.h"
#include "tests/support/cluster.h"
#include "tests/support/sim_media.h"

namespace weft::test {
namespace {

struct Case {
  int ranks;
  const char* algorithm;
  const char* protocol;
};

Cluster cluster_of(const Case& of) {
  Cluster c{.ranks = of.ranks, .mode = Mode::threads, .options = {}, .hosts = {}};
  c.options.algorithm = of.algorithm;
  c.options.protocol = of.protocol;
  return c;
}

std::vector<float> input_of(Rank rank, size_t count) {
  std::mt19937 random(static_cast<unsigned>(rank) + 1);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

std::vector<float> all_reduce(Communicator& c, size_t count, ReduceOp op) {
  const std::vector<float> in = input_of(c.rank(), count);
  std::vector<float> out(count, -1);
  const float scalar = 0.3F;
  const Call call{.kind = Kind::all_reduce,
                  .input = in.data(),
                  .output = out.data(),
                  .count = count,
                  .type = DataType::float32,
                  .op = op,
                  .scalar = op == ReduceOp::premulsum ? &scalar : nullptr};
  const Status status = c.run(call);
  EXPECT_TRUE(status.ok()) << status.to_string();
  return out;
}

class ShortSteps : public testing::TestWithParam<Case> {};

// A call whose steps are traced runs the whole ones.
TEST_P(ShortSteps, GiveTheBitsOfTheWholeOnes) {
  run_ranks(cluster_of(GetParam()), [](Communicator& c) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::premulsum, ReduceOp::max})
      for (const size_t count : {1, 3, 61, 62, 63, 124, 125, 496, 497, 1000, 8192, 8193, 30000}) {
        const std::vector<float> by_short = all_reduce(c, count, op);
        ASSERT_TRUE(c.start_trace(1000).ok());
        const std::vector<float> by_whole = all_reduce(c, count, op);
        EXPECT_FALSE(c.end_trace().empty());
        EXPECT_EQ(std::memcmp(by_short.data(), by_whole.data(), count * sizeof(float)), 0)
            << count << " elements, op " << static_cast<int>(op);
      }
  });
}

INSTANTIATE_TEST_SUITE_P(
    Windows, ShortSteps,
    testing::Values(Case{2, "window_one_shot", "ll"}, Case{2, "window_one_shot", "simple"},
                    Case{3, "window_one_shot", "ll"}, Case{5, "window_one_shot", "simple"},
                    Case{3, "window_two_shot", "ll"}, Case{4, "window_two_shot", "simple"},
                    Case{2, "window_round_trip", "simple"},
                    Case{3, "window_round_trip", "simple"}));

// Of `bytes` from each rank to each, or from rank 1 to all.
std::vector<std::byte> moved(Communicator& c, Kind kind, size_t bytes) {
  const size_t blocks = kind == Kind::broadcast ? 1 : static_cast<size_t>(c.size());
  std::vector<std::byte> in(kind == Kind::all_to_all ? bytes * blocks : bytes);
  for (size_t i = 0; i < in.size(); ++i)
    in[i] = static_cast<std::byte>(i * 37 + static_cast<size_t>(c.rank()) * 101 + 1);
  std::vector<std::byte> out(bytes * blocks + 1);  // and one that nobody touches
  const Call call{
      .kind = kind, .input = in.data(), .output = out.data(), .count = bytes, .root = 1};
  const Status status = c.run(call);
  EXPECT_TRUE(status.ok()) << status.to_string();
  return out;
}

class ShortStepsThatMove : public testing::TestWithParam<Case> {};

TEST_P(ShortStepsThatMove, PutTheBytesWhereTheWholeOnesDo) {
  run_ranks(cluster_of(GetParam()), [](Communicator& c) {
    for (const Kind kind : {Kind::broadcast, Kind::all_gather, Kind::all_to_all})
      for (const size_t bytes : {1, 3, 4, 7, 8, 9, 16, 17, 248, 249, 500, 1024, 4095, 4096, 9000}) {
        const auto by_short = moved(c, kind, bytes);
        ASSERT_TRUE(c.start_trace(1000).ok());
        const auto by_whole = moved(c, kind, bytes);
        EXPECT_FALSE(c.end_trace().empty());
        EXPECT_EQ(by_short, by_whole) << bytes << " bytes, kind " << static_cast<int>(kind);
      }
  });
}

INSTANTIATE_TEST_SUITE_P(Windows, ShortStepsThatMove,
                         testing::Values(Case{2, "window_one_shot", "ll"},
                                         Case{2, "window_one_shot", "simple"},
                                         Case{3, "window_one_shot", "ll"},
                                         Case{5, "window_one_shot", "simple"}));

class BlockedShortSteps : public testing::TestWithParam<const char*> {};

// One line, and several.
TEST_P(BlockedShortSteps, NameWhoIsWaitedForAndWhere) {
  for (const size_t count : {2, 400}) {
    Cluster c = cluster_of({3, "window_one_shot", GetParam()});
    c.options.timeout_s = 0.3;
    run_ranks(c, [count](Communicator& comm) {
      (void)all_reduce(comm, count, ReduceOp::sum);
      if (comm.rank() == 1) return std::this_thread::sleep_for(std::chrono::seconds(1));
      std::vector<float> in(count), out(count);
      const Status status =
          comm.all_reduce(in.data(), out.data(), count, DataType::float32, ReduceOp::sum);
      EXPECT_FALSE(status.ok());
      EXPECT_EQ(status.peer(), 1) << status.to_string();
      EXPECT_NE(status.message().find("step 1"), std::string_view::npos) << status.to_string();
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Protocols, BlockedShortSteps, testing::Values("ll", "simple"));

// Of one rank's program for `count` bytes.
Result<std::unique_ptr<Plan>> plan_alone(const Program& program, size_t count) {
  Media media(0, 1, {}, 0);
  const Call call{.kind = Kind::broadcast, .count = count, .type = DataType::uint8};
  PlanRequest request;
  request.algorithm = "written here";
  request.collective = {call.kind, 1, 0, false};
  request.segment_bytes = 1 << 20;
  request.links = {8, 64 << 10};
  return lower(request, program, Layout(request.collective, 0, call, 1), media);
}

// Of `lanes` lanes that copy `count` bytes each.
std::vector<ShortStep> of_copies(int lanes, size_t count) {
  Program program;
  for (int l = 0; l < lanes; ++l) program.lane().step(0).read(input()).write(output());
  const auto plan = plan_alone(program, count);
  EXPECT_TRUE(plan.ok()) << plan.status().to_string();
  return (*plan)->short_steps;
}

// Whoever wrote them, and whether they were proven.
TEST(Plans, OfStepsThatFoldMoreThanKernelsDoAreRefused) {
  for (const int sources : {64, 65}) {
    Program program;
    Step& step = program.lane().step(0).write(output());
    for (int k = 0; k < sources; ++k) step.read(input());
    const Status status = plan_alone(program, 8).status();
    EXPECT_EQ(status.ok(), sources == 64) << status.to_string();
    EXPECT_EQ(status.message().find("folds 65 values") != std::string_view::npos, sources == 65);
  }
}

TEST(ShortStepsOfAPlan, AreThereForOneLaneOfLittleData) {
  EXPECT_EQ(of_copies(1, 32 << 10).size(), 1u);
  EXPECT_EQ(of_copies(1, (32 << 10) + 1).size(), 0u);
  EXPECT_EQ(of_copies(2, 8).size(), 0u);
}

struct As {
  const char* algorithm = "window_one_shot";
  bool ll = false, crowded = false, in_place = false;
};

// The plan of a call of so many bytes in each block, in chunks of 64 KiB.
std::unique_ptr<Plan> plan_of(SimMedia& world, Kind kind, int ranks, Rank me, size_t bytes,
                              const As& as = {}) {
  const Call call{.kind = kind, .count = bytes, .type = DataType::uint8, .op = ReduceOp::sum};
  const Choice choice{
      .algorithm = find_algorithm(as.algorithm), .ll = as.ll, .segment_bytes = 64 << 10};
  auto arranged = arrange(call, as.in_place, choice, ranks, me).take();
  arranged.request.links = Media::kUsualLinks;
  arranged.request.crowded = as.crowded;
  auto plan = lower(arranged.request, std::move(arranged.program), std::move(arranged.layout),
                    world.of(me));
  EXPECT_TRUE(plan.ok()) << plan.status().to_string();
  return plan.ok() ? plan.take() : nullptr;
}

// The ways of all copies of the plan's, step by step.
std::vector<CopyWay> ways_of(Kind kind, Rank me) {
  SimMedia world(2, 4 << 20);
  const auto plan = plan_of(world, kind, 2, me, 1 << 20);
  std::vector<CopyWay> ways;
  if (!plan) return ways;
  for (const PlanStep& step : plan->lanes[0].steps)
    for (size_t k = 0; k < step.targets.size(); ++k) ways.push_back(step.way_to(k));
  return ways;
}

TEST(Copies, AreMadeByWhereTheirLinesComeFromAndGoTo) {
  const auto has = [](const std::vector<CopyWay>& ways, CopyWay way) {
    return std::count(ways.begin(), ways.end(), way) > 0;
  };
  for (const Rank me : {0, 1}) {
    const std::vector<CopyWay> all = ways_of(Kind::all_to_all, me);
    for (const CopyWay way : {CopyWay::own, CopyWay::shared, CopyWay::taken})
      EXPECT_TRUE(has(all, way)) << "rank " << me << ", way " << static_cast<int>(way);
  }
  const std::vector<CopyWay> root = ways_of(Kind::broadcast, 0), leaf = ways_of(Kind::broadcast, 1);
  EXPECT_TRUE(has(root, CopyWay::shared));
  EXPECT_FALSE(has(root, CopyWay::own)) << "it is one fold with what others read";
  EXPECT_EQ(leaf, std::vector<CopyWay>(leaf.size(), CopyWay::taken));
  EXPECT_FALSE(leaf.empty());
}

// Of a rank's writes to its Output: how many are results that large calls write past the caches,
// and how many are not.
std::pair<int, int> results_of(Kind kind, const As& as) {
  SimMedia world(2, 4 << 20);
  const auto plan = plan_of(world, kind, 2, 0, 1 << 20, as);
  std::pair<int, int> count;
  if (!plan) return count;
  for (const PlanStep& step : plan->lanes[0].steps)
    for (size_t k = 0; k < step.targets.size(); ++k)
      if (step.targets[k].buffer == Buffer::output)
        ++(step.results & PlanStep::bit(k) ? count.first : count.second);
  return count;
}

TEST(Results, PassTheCachesUnlessTheyLieWhereTheInputWasJustRead) {
  using Counts = std::pair<int, int>;
  const As trip{.algorithm = "window_round_trip"},
      trip_in_place{.algorithm = "window_round_trip", .in_place = true}, in_place{.in_place = true};
  EXPECT_EQ(results_of(Kind::all_reduce, trip), Counts(2, 0));
  EXPECT_EQ(results_of(Kind::all_reduce, trip_in_place), Counts(0, 2));
  EXPECT_EQ(results_of(Kind::all_to_all, trip), Counts(4, 0));
  EXPECT_EQ(results_of(Kind::all_to_all, trip_in_place), Counts(0, 2)) << "and none for itself";
  // Nothing lies there before.
  EXPECT_EQ(results_of(Kind::all_gather, trip_in_place), Counts(2, 0));
  EXPECT_EQ(results_of(Kind::all_gather, in_place), Counts(1, 0));
  // What has been read before slots that do not come back may have left the caches.
  EXPECT_EQ(results_of(Kind::reduce_scatter, in_place), Counts(0, 1));
  EXPECT_EQ(results_of(Kind::all_reduce, {.algorithm = "window_two_shot", .in_place = true}),
            Counts(1, 1));
}

// After two laps of windows, each of `lap` calls of so many rounds; then the ways are timed.
TEST(Trials, BeginWhereTheirPlanHasTouchedItsPages) {
  struct Laps {
    size_t bytes;
    uint64_t lap, rounds, halves;
  };
  for (const Laps& c :
       {Laps{64 << 10, 8, 1, 1}, Laps{128 << 10, 4, 2, 2}, Laps{1 << 20, 4, 16, 4}}) {
    SimMedia world(2, 4 << 20);
    const auto plan = plan_of(world, Kind::broadcast, 2, 0, c.bytes, {.crowded = true});
    ASSERT_TRUE(plan && plan->stores);
    const auto is_timed = [&](uint64_t turn) { return plan->stores->begin(turn).timed; };
    const uint64_t before = std::min(2 * c.lap * c.rounds, StoreTrial::kBeforeMost),
                   first = before + c.lap * c.halves;
    for (uint64_t turn = 0; turn < first; ++turn) EXPECT_FALSE(is_timed(turn)) << turn;
    EXPECT_TRUE(is_timed(first)) << c.bytes;
  }
}

// What rank 0 would claim for the call after this one, of so many ranks; `bytes` of each of its
// blocks.
struct Claims {
  size_t lap = 0;  // of the plan, in leases
  std::vector<Rank> windows{};
  std::vector<size_t> from{}, bytes{};  // in units of the call's lease, and bytes
};
Claims claims_of(Kind kind, int ranks, size_t bytes, const As& as = {}) {
  SimMedia world(ranks, 4 << 20);
  const auto plan = plan_of(world, kind, ranks, 0, bytes, as);
  Claims claims;
  if (!plan) return claims;
  claims.lap = plan->window_lap / plan->window_bytes();
  const std::vector<ShortClaim> all = short_claims(*plan);
  EXPECT_EQ(plan->short_claims.size(), claims_next() ? all.size() : 0) << "where it pays";
  for (const ShortClaim& claim : all) {
    for (Rank r = 0; r < ranks; ++r)
      if (claim.window == world.of(0).window(r)) claims.windows.push_back(r);
    claims.from.push_back(claim.offset / plan->window_bytes());
    claims.bytes.push_back(claim.bytes);
  }
  return claims;
}

// Rank 0 writes its slot of its own window, once for all.
TEST(ShortClaims, AreWhatTheNextCallWritesForOthers) {
  const Claims simple = claims_of(Kind::all_reduce, 2, 1000);
  EXPECT_EQ(simple.windows, std::vector<Rank>{0});
  EXPECT_EQ(simple.from, std::vector<size_t>{1}) << "not of this call's lease, but behind it";
  EXPECT_EQ(simple.bytes, std::vector<size_t>{1000});
  const Claims lines = claims_of(Kind::all_reduce, 2, 300, {.ll = true});
  EXPECT_EQ(lines.bytes, (std::vector<size_t>{248 + 8, 52 + 8})) << "payloads and their flags";
  const Claims several = claims_of(Kind::all_to_all, 4, 1000);
  EXPECT_EQ(several.bytes, std::vector<size_t>(3, 1000));
  EXPECT_EQ(several.from, std::vector<size_t>(3, 1));
}

TEST(ShortClaims, ComeRoundSoonerWhereAllWait) {
  EXPECT_EQ(claims_of(Kind::all_gather, 2, 1024).lap, 256u);
  EXPECT_EQ(claims_of(Kind::broadcast, 2, 2048).lap, 1024u);
}

TEST(ShortClaims, AreFewBytes) {
  EXPECT_EQ(claims_of(Kind::all_gather, 2, kClaimedNextMost).bytes.size(), 1u);
  EXPECT_EQ(claims_of(Kind::all_gather, 2, kClaimedNextMost + 1).bytes.size(), 0u);
  EXPECT_EQ(claims_of(Kind::all_to_all, 5, kClaimedNextMost / 4).bytes.size(), 4u);
  EXPECT_EQ(claims_of(Kind::all_to_all, 5, kClaimedNextMost / 4 + 1).bytes.size(), 0u);
}

TEST(ShortClaims, AreNoneWhereNobodyWaitsOrSlotsComeBack) {
  EXPECT_TRUE(claims_of(Kind::broadcast, 2, 1000).bytes.empty());
  EXPECT_TRUE(claims_of(Kind::reduce, 2, 1000).bytes.empty());
  EXPECT_TRUE(
      claims_of(Kind::all_reduce, 2, 1000, {.algorithm = "window_round_trip"}).bytes.empty());
  EXPECT_TRUE(claims_of(Kind::all_reduce, 2, 1000, {.crowded = true}).bytes.empty());
}

}  // namespace
}  // namespace weft::test
