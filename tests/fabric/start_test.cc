// What launch() decides from its config and the environment.
#include "fabric/start.h"

#include "tests/fabric/ranks.h"

namespace weft::test {
namespace {

using How = StartPlan::How;

Environment torch(int rank, int size) {
  return Environment({{"RANK", std::to_string(rank)},
                      {"WORLD_SIZE", std::to_string(size)},
                      {"MASTER_ADDR", "10.0.0.1"},
                      {"MASTER_PORT", "29500"}});
}

std::string error_of(const FabricConfig& config, const Environment& env) {
  const Result<StartPlan> plan = plan_start(config, env);
  return plan.ok() ? "no error" : std::string(plan.status().message());
}

TEST(Start, AloneItStartsTheOthers) {
  const auto plan = plan_start({.devices = 4}, Environment());
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->how, How::processes);
  EXPECT_EQ(plan->job.ranks, 4);
  EXPECT_EQ(plan->job.count, 4);
  EXPECT_EQ(plan->meet, "");
}

TEST(Start, OneRankIsThisProcess) {
  const auto plan = plan_start({}, Environment());
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->how, How::join);
  EXPECT_EQ(plan->join.size, 1);
}

TEST(Start, TheEnvironmentOfALauncherIsAdopted) {
  for (const FabricConfig& config :
       {FabricConfig{}, FabricConfig{.devices = 6}, FabricConfig{.devices = 2, .num_nodes = 3}}) {
    const auto plan = plan_start(config, torch(5, 6));
    ASSERT_TRUE(plan.ok()) << plan.status().to_string();
    EXPECT_EQ(plan->how, How::join);
    EXPECT_EQ(plan->join.rank, 5);
    EXPECT_EQ(plan->join.where, "tcp://10.0.0.1:29500");
  }
}

// Only our own launcher knows what the exit status of a rank means that failed by another.
TEST(Start, RanksStartedByHandAreNotOurs) {
  std::map<std::string, std::string, std::less<>> env{
      {"WEFT_RANK", "0"}, {"WEFT_WORLD_SIZE", "2"}, {"WEFT_RENDEZVOUS", "tcp://h:1"}};
  EXPECT_FALSE(plan_start({}, Environment(env))->ours);
  env.emplace(kSupervised, "1");
  EXPECT_TRUE(plan_start({}, Environment(env))->ours);
}

TEST(Start, ContradictionsAreErrors) {
  EXPECT_NE(error_of({.devices = 4}, torch(0, 6))
                .find("4 ranks, but this process is part of a job "
                      "of 6 (torchrun)"),
            std::string::npos);
  EXPECT_NE(error_of({.strategy = Strategy::threads}, torch(0, 6)).find("strategy is threads"),
            std::string::npos);
  EXPECT_NE(error_of({.num_nodes = 2, .strategy = Strategy::threads}, {}).find("one machine"),
            std::string::npos);
  EXPECT_NE(error_of({.devices = -1}, {}).find("devices is -1"), std::string::npos);
  EXPECT_NE(
      error_of({.devices = 100000}, {}).find("devices is 100000; launch() starts at most 4096"),
      std::string::npos);
  EXPECT_NE(error_of({.accelerator = Accelerator::gpu}, {}).find("accelerator is gpu"),
            std::string::npos);
}

TEST(Start, EachOfSeveralNodesStartsItsPart) {
  const Environment env({{"MASTER_ADDR", "fd00::1"}, {"MASTER_PORT", "29500"}, {"NODE_RANK", "2"}});
  const auto plan = plan_start({.devices = 2, .num_nodes = 3}, env);
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  EXPECT_EQ(plan->how, How::processes);
  EXPECT_EQ(plan->job.ranks, 6);
  EXPECT_EQ(plan->job.first, 4);
  EXPECT_EQ(plan->job.count, 2);
  EXPECT_EQ(plan->meet, "tcp://[fd00::1]:29500");
  EXPECT_NE(error_of({.devices = 2, .num_nodes = 3}, {}).find("MASTER_ADDR"), std::string::npos);
  const Environment wrong({{"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}, {"NODE_RANK", "3"}});
  EXPECT_NE(error_of({.devices = 2, .num_nodes = 3}, wrong).find("NODE_RANK"), std::string::npos);
}

TEST(Start, ThreadsAreStartedHere) {
  const auto plan = plan_start({.devices = 3, .strategy = Strategy::threads}, Environment());
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->how, How::threads);
  EXPECT_EQ(plan->job.ranks, 3);
}

}  // namespace
}  // namespace weft::test
