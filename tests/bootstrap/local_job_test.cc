// Ranks that a process starts: this test's program again, as one disabled test.
#include "bootstrap/local_job.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "base/env.h"
#include "base/text.h"
#include "bootstrap/cpus.h"

namespace weft {
namespace {

// Told to ranks: the CPUs, "N N ...", and whether a rank should have all of them.
constexpr const char *kExpected = "WEFT_TEST_CPUS", *kUnbound = "WEFT_TEST_UNBOUND";

std::string text_of(const std::vector<int>& cpus) {
  std::string text;
  for (const int cpu : cpus) text.append(concat(text.empty() ? "" : " ", cpu));
  return text;
}

LocalJob job(int ranks, bool bind) {
  LocalJob job;
  job.ranks = job.count = ranks;
  job.arguments = {"--gtest_filter=Rank.DISABLED_HasTheCpusThatItShould",
                   "--gtest_also_run_disabled_tests"};
  job.bind = bind;
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
  EXPECT_EQ(text_of(cpus_core_by_core()),
            bound ? cpus[static_cast<size_t>(*rank) % cpus.size()] : *expected);
}

class LocalJobTest : public testing::Test {
 protected:
  LocalJobTest() {
    ::setenv(kExpected, text_of(cpus_core_by_core()).c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  }
  ~LocalJobTest() override {
    ::unsetenv(kExpected);  // NOLINT(concurrency-mt-unsafe)
    ::unsetenv(kUnbound);   // NOLINT(concurrency-mt-unsafe)
  }

  static void expect_to_pass(const LocalJob& job) {
    const Result<Outcome> outcome = run_local_job(job, {{}, "tcp://127.0.0.1:1", {}});
    ASSERT_TRUE(outcome.ok()) << outcome.status().to_string();
    EXPECT_EQ(outcome->first_failed, -1) << outcome->reason;
    EXPECT_EQ(outcome->exit_status, 0);
  }
};

// Where ranks are more than CPUs, too.
TEST_F(LocalJobTest, RanksAreBoundToCpusInTurn) {
  const int cpus = static_cast<int>(cpus_core_by_core().size());
  expect_to_pass(job(1, true));
  expect_to_pass(job(std::min(cpus, 16) + 3, true));
}

TEST_F(LocalJobTest, OrToNone) {
  ::setenv(kUnbound, "1", 1);  // NOLINT(concurrency-mt-unsafe)
  expect_to_pass(job(3, false));
}

}  // namespace
}  // namespace weft
