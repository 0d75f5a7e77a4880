// What has failed is told where programs look: ncclGetLastError, and the lines of NCCL_DEBUG=WARN.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include "nccl/nccl.h"
#include "tests/nccl/threads.h"
#include "tests/support/contains.h"

namespace {

using weft::test::not_blocking;
using weft::test::settled;

std::string last_error() { return ncclGetLastError(nullptr); }

using weft::test::contains;

// NCCL_DEBUG=WARN, into a file.
class Warnings {
 public:
  Warnings() {
    ::setenv("NCCL_DEBUG", "WARN", 1);              // NOLINT(concurrency-mt-unsafe)
    ::setenv("NCCL_DEBUG_FILE", path_.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
    ncclResetDebugInit();
  }
  ~Warnings() {
    ::unsetenv("NCCL_DEBUG");       // NOLINT(concurrency-mt-unsafe)
    ::unsetenv("NCCL_DEBUG_FILE");  // NOLINT(concurrency-mt-unsafe)
    ncclResetDebugInit();
    std::filesystem::remove(path_);
  }
  // How many lines there are, as long as all have `part`.
  ptrdiff_t with(const std::string& part) const {
    std::ifstream file(path_);
    ptrdiff_t count = 0;
    for (std::string line; std::getline(file, line); ++count)
      EXPECT_TRUE(contains(line, "NCCL WARN ") && contains(line, part)) << line;
    return count;
  }

 private:
  const std::string path_ = testing::TempDir() + "weft_warnings_" + std::to_string(::getpid());
};

// Two ranks on this thread, which do not block.
class Reports : public testing::Test {
 protected:
  void SetUp() override {
    ncclUniqueId id;
    ncclConfig_t config = not_blocking();
    ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    for (int r = 0; r < 2; ++r) ncclCommInitRankConfig(&comms_[r], 2, id, r, &config);
    for (ncclComm_t comm : comms_) ASSERT_EQ(settled(comm), ncclSuccess);
    int count = 0;
    ncclCommCount(nullptr, &count);  // an older error of this thread's
    warnings_.emplace();
  }
  void TearDown() override {
    for (ncclComm_t comm : comms_) EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
  }
  void lose_rank_1() {
    EXPECT_EQ(ncclCommAbort(comms_[1]), ncclSuccess);
    comms_[1] = nullptr;
  }
  // That it is found, and told once.
  void expect_told(ncclComm_t comm, const std::string& failed) {
    ncclResult_t state = ncclSuccess;
    for (int i = 0; i < 10000 && (state == ncclSuccess || state == ncclInProgress); ++i) {
      EXPECT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(state, ncclRemoteError);
    EXPECT_TRUE(last_error().starts_with(failed + ": ")) << last_error();
    EXPECT_EQ(settled(comm), ncclRemoteError);
    EXPECT_EQ(warnings_->with(failed), 1);
  }

  ncclComm_t comms_[2] = {};
  std::optional<Warnings> warnings_;
};

TEST_F(Reports, ACallThatFailsLater) {
  float x = 1;
  EXPECT_EQ(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, comms_[0], nullptr), ncclInProgress);
  lose_rank_1();
  expect_told(comms_[0], "a call that was in progress");
}

TEST_F(Reports, AMakingThatFails) {
  ncclUniqueId id;
  ncclComm_t made[2] = {};
  ncclConfig_t config = not_blocking();
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  for (int r = 0; r < 2; ++r)
    EXPECT_EQ(ncclCommInitRankConfig(&made[r], 3, id, r, &config), ncclInProgress);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_EQ(ncclCommAbort(made[1]), ncclSuccess);
  expect_told(made[0], "making the communicator");
  EXPECT_EQ(ncclCommAbort(made[0]), ncclSuccess);
}

// Nobody has a handle to ask for how it went.
TEST_F(Reports, AMakingThatGivesNoCommunicator) {
  ncclComm_t none = nullptr;
  EXPECT_EQ(ncclCommSplit(comms_[0], NCCL_SPLIT_NOCOLOR, 0, &none, nullptr), ncclInProgress);
  lose_rank_1();
  for (int i = 0; i < 10000 && warnings_->with("making the communicator: ") == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(warnings_->with("making the communicator: "), 1);
}

}  // namespace
