// Ranks that a process starts: this test's program again, as one disabled test.
#include "bootstrap/local_job.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/env.h"
#include "base/text.h"
#include "bootstrap/cpus.h"
#include "tests/support/temporary_folder.h"

namespace weft {
namespace {

// Told to ranks: the CPUs, "N N ...", and whether a rank should have all of them, or is one of a
// block, and which rank is the first block's last.
constexpr const char *kExpected = "WEFT_TEST_CPUS", *kUnbound = "WEFT_TEST_UNBOUND";
constexpr const char* kBlocks = "WEFT_TEST_BLOCKS";
constexpr const char* kFolder = "WEFT_TEST_FOLDER";  // where each leaves a file

std::string text_of(const std::vector<int>& cpus) {
  std::string text;
  for (const int cpu : cpus) text.append(concat(text.empty() ? "" : " ", cpu));
  return text;
}

LocalJob job(int ranks, CpuBinding binding) {
  LocalJob job;
  job.ranks = job.count = ranks;
  job.arguments = {"--gtest_filter=Rank.DISABLED_HasTheCpusThatItShould",
                   "--gtest_also_run_disabled_tests"};
  job.binding = binding;
  return job;
}

// By each rank.
TEST(Rank, DISABLED_HasTheCpusThatItShould) {
  const Environment environment = Environment::of_process();
  const auto expected = environment.get(kExpected);
  const auto rank = environment.get_int("WEFT_LOCAL_RANK");
  ASSERT_TRUE(expected && rank);
  std::vector<std::string> cpus;
  std::istringstream words(*expected);
  for (std::string word; words >> word;) cpus.push_back(word);
  ASSERT_FALSE(cpus.empty());
  const bool bound = !environment.get(kUnbound);
  const auto blocks = environment.get(kBlocks);  // the last rank of the first CPU's
  const size_t cpu = blocks ? (*rank > std::stoi(*blocks) ? cpus.size() - 1 : 0)
                            : static_cast<size_t>(*rank) % cpus.size();
  EXPECT_EQ(text_of(cpus_core_by_core()), bound ? cpus[cpu] : *expected);
  std::ofstream(concat(environment.get(kFolder).value(), "/", *rank));  // it was here
}

// Of a process that may use two CPUs at most.
class LocalJobTest : public testing::Test {
 protected:
  void SetUp() override {
    std::vector<int> cpus = cpus_core_by_core();
    cpus.resize(std::min<size_t>(cpus.size(), 2));
    cpu_set_t few;
    CPU_ZERO(&few);
    for (const int cpu : cpus) CPU_SET(cpu, &few);
    ASSERT_EQ(::sched_setaffinity(0, sizeof few, &few), 0);
    ::setenv(kExpected, text_of(cpus_core_by_core()).c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
    ::setenv(kFolder, folder_.path().c_str(), 1);                  // NOLINT(concurrency-mt-unsafe)
  }
  void TearDown() override {
    for (const char* name : {kExpected, kUnbound, kBlocks, kFolder})
      ::unsetenv(name);  // NOLINT(concurrency-mt-unsafe)
    unbind_from_cpus();
  }

  void expect_to_pass(const LocalJob& job) const {
    const Result<Outcome> outcome = run_local_job(job, {{}, "tcp://127.0.0.1:1", {}});
    ASSERT_TRUE(outcome.ok()) << outcome.status().to_string();
    EXPECT_EQ(outcome->first_failed, -1) << outcome->reason;
    EXPECT_EQ(outcome->exit_status, 0);
    for (Rank rank = 0; rank < job.ranks; ++rank)
      EXPECT_TRUE(std::filesystem::exists(folder_.path() / std::to_string(rank))) << rank;
  }

 private:
  test::TemporaryFolder folder_;
};

TEST_F(LocalJobTest, RanksAreBoundToCpusInTurn) { expect_to_pass(job(5, CpuBinding::in_turn)); }

TEST_F(LocalJobTest, OrInBlocks) {
  ::setenv(kBlocks, "2", 1);  // NOLINT(concurrency-mt-unsafe)
  expect_to_pass(job(5, CpuBinding::in_blocks));
}

TEST_F(LocalJobTest, BlocksAreOfOneRankWhereCpusSuffice) {
  ::setenv(kBlocks, "0", 1);  // NOLINT(concurrency-mt-unsafe)
  expect_to_pass(job(2, CpuBinding::in_blocks));
}

TEST_F(LocalJobTest, OrToNone) {
  ::setenv(kUnbound, "1", 1);  // NOLINT(concurrency-mt-unsafe)
  expect_to_pass(job(3, CpuBinding::none));
}

}  // namespace
}  // namespace weft
