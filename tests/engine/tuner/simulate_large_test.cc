// Large jobs: few ranks stand for all of them, and what would take too long, or too much memory, is
// refused.
#include <gtest/gtest.h>

#include "tests/engine/tuner/simulations.h"
#include "tests/support/contains.h"
#include "tests/support/sanitized.h"

namespace weft {
namespace {

// Representatives stand for all ranks: the figure is that of a full run.
class Representatives : public testing::TestWithParam<std::tuple<std::string, int>> {};

TEST_P(Representatives, AreAsGoodAsAllRanks) {
  const auto [network_name, ranks] = GetParam();
  const Network& network = *find_example_network(network_name);
  int compared = 0;
  for (const Algorithm& algorithm : catalog())
    for (int k = 0; k < kKinds; ++k) {
      Trial trial;
      trial.algorithm = &algorithm;
      trial.collective = {static_cast<Kind>(k), ranks, 0, false};
      if (!algorithm.turn || !algorithm.suits(trial.collective)) continue;
      if (algorithm.windows && network_name != "node") continue;
      if (algorithm.turn(trial.collective, {}) == 0) continue;
      for (const double bytes : {8.0, 1e6}) {
        SCOPED_TRACE(testing::Message() << algorithm.name << ", " << name(trial.collective.kind));
        trial.step_budget = 5e6;
        trial.representatives = true;
        const Simulated few = run(trial, network, bytes);
        trial.representatives = false;
        const Simulated all = run(trial, network, bytes);
        EXPECT_LT(few.ranks, ranks);
        EXPECT_EQ(all.ranks, ranks);
        EXPECT_NEAR(few.seconds / all.seconds, 1, 1e-6);
        ++compared;
      }
    }
  EXPECT_GT(compared, 6);
}

INSTANTIATE_TEST_SUITE_P(Networks, Representatives,
                         testing::Values(std::tuple("node", 7), std::tuple("node", 16),
                                         std::tuple("nvlink", 24), std::tuple("nvlink", 64)));

// Of 1 MiB.
void expect_like_all_ranks(Trial trial, const Network& network, int representatives,
                           double tolerance = 1e-6) {
  const Simulated few = run(trial, network, 1 << 20);
  trial.representatives = false;
  const Simulated all = run(trial, network, 1 << 20);
  EXPECT_EQ(few.ranks, representatives);
  EXPECT_EQ(all.ranks, trial.collective.ranks);
  EXPECT_NEAR(few.seconds / all.seconds, 1, tolerance);
}

TEST(Simulate, ARingOf1024RanksIsThatOfItsRepresentatives) {
  if (test::kSanitized) GTEST_SKIP() << "it takes long; Representatives have fewer ranks";
  const Network& network = *find_example_network("nvlink");
  expect_like_all_ranks(trial_of("ring", Kind::all_reduce, 1024), network, 8);
}

TEST(Cores, AreSharedByRepresentativesAsByAllRanks) {
  Network network = plain();
  network.between = network.inside;
  network.node_ranks = 4;
  network.node_cores = 2;
  network.switch_s = 5 * kMicro;
  network.switch_spread_s = network.inside.patience_s = 3 * kMicro;
  expect_like_all_ranks(trial_of("ring", Kind::all_reduce, 32), network, 4);
}

// Where they share NICs, and the uplinks of oversubscribed switches, those that send at the same
// moment come in another order, which may change a little.
TEST(Simulate, RepresentativesMeetAtUplinksAsAllRanksDo) {
  Network network = *find_example_network("nvlink");
  network.node_ranks = 2;
  network.node_nics = 1;
  network.tiers = {{2, 1 * kMicro, 2}, {4, 1 * kMicro, 4}};
  for (const auto& [algorithm, kind] :
       {std::pair("ring", Kind::all_reduce), std::pair("pat", Kind::all_gather),
        std::pair("bruck", Kind::all_gather), std::pair("bruck", Kind::all_to_all),
        std::pair("pairwise", Kind::all_to_all)})
    for (const int ranks : {24, 64}) {
      SCOPED_TRACE(testing::Message() << algorithm << ", " << name(kind) << " of " << ranks);
      expect_like_all_ranks(trial_of(algorithm, kind, ranks), network, 8, 0.025);
    }
}

// One round can be long: each rank's core is shared out to all its lanes.
TEST(Simulate, RefusesMoreThanItsBudget) {
  Trial trial = trial_of("direct_one_shot", Kind::all_gather, 64);
  trial.step_budget = 1000;
  const Result<Simulation> simulation = Simulation::make(trial, plain());
  ASSERT_FALSE(simulation.ok());
  EXPECT_NE(simulation.status().message().find("direct_one_shot of 64 ranks"), std::string::npos);
}

TEST(Simulate, RefusesMoreBlocksThanItsBudgetIsWorth) {
  for (const int ranks : {46340, 65536, 1 << 20}) {
    const Result<Simulation> simulation =
        Simulation::make(trial_of("pairwise", Kind::all_to_all, ranks), plain());
    ASSERT_FALSE(simulation.ok());
    EXPECT_TRUE(test::contains(simulation.status(), "all_to_all of " + std::to_string(ranks)) &&
                test::contains(simulation.status(), "allow more, or simulate fewer"))
        << simulation.status().message();
  }
  EXPECT_GT(run(trial_of("pairwise", Kind::all_to_all, 2000), plain(), 1 << 20).seconds, 0);
}

TEST(Simulate, SlotsThatAreNeverUsedTakeNoMemory) {
  Trial trial = trial_of("ring", Kind::all_reduce, 64);
  trial.representatives = false;
  trial.slots = 64;
  const double enough = run(trial, plain(), 1 << 20).seconds;
  trial.slots = 1 << 30;
  EXPECT_EQ(run(trial, plain(), 1 << 20).seconds, enough);
}

}  // namespace
}  // namespace weft
