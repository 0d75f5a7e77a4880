// Ranks leave in whatever order, which is no failure of the others'; one that has failed says so.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "nccl/nccl.h"
#include "tests/nccl/threads.h"

namespace {

using weft::test::settled;

constexpr int kRanks = 3;

// How a rank leaves, and how long after the others have begun to.
struct Leave {
  bool finalize = true;
  int after_ms = 0;
};

// A communicator that is used once, and left.
void take_part(const ncclUniqueId& id, int rank, bool blocking, const Leave& leave) {
  ncclComm_t comm = nullptr;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = blocking ? 1 : 0;
  (void)ncclCommInitRankConfig(&comm, kRanks, id, rank, &config);
  ASSERT_EQ(settled(comm), ncclSuccess) << ncclGetLastError(comm);
  float x = 1;
  (void)ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, comm, nullptr);
  ASSERT_EQ(settled(comm), ncclSuccess) << ncclGetLastError(comm);
  EXPECT_EQ(x, kRanks);
  std::this_thread::sleep_for(std::chrono::milliseconds(leave.after_ms));
  if (leave.finalize) {
    EXPECT_EQ(ncclCommFinalize(comm), ncclSuccess) << ncclGetLastError(comm);
  }
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess) << ncclGetLastError(nullptr);
}

bool take_part_in_a_process(const ncclUniqueId& id, int rank, bool blocking, const Leave& leave) {
  take_part(id, rank, blocking, leave);
  return !testing::Test::HasFailure();
}

const std::vector<Leave> kOrders[] = {{{}, {}, {}},
                                      {{true, 0}, {true, 60}, {true, 120}},
                                      {{true, 120}, {true, 60}, {true, 0}},
                                      {{false, 0}, {true, 60}, {true, 60}},
                                      {{true, 60}, {false, 0}, {true, 120}}};

// Blocking or not; NCCL_SHM_DISABLE.
class Orders : public testing::TestWithParam<std::tuple<bool, const char*>> {
 protected:
  Orders() {
    ::setenv("NCCL_SHM_DISABLE", std::get<1>(GetParam()), 1);  // NOLINT(concurrency-mt-unsafe)
  }
  ~Orders() override { ::unsetenv("NCCL_SHM_DISABLE"); }  // NOLINT(concurrency-mt-unsafe)

  const bool blocking_ = std::get<0>(GetParam());
};

TEST_P(Orders, Threads) {
  for (const std::vector<Leave>& order : kOrders) {
    ncclUniqueId id;
    ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    weft::test::on_threads(kRanks, [&](int rank) { take_part(id, rank, blocking_, order[rank]); });
  }
}

TEST_P(Orders, Processes) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "a process forked beside threads can start none under ThreadSanitizer";
#endif
  for (const std::vector<Leave>& order : kOrders) {
    ncclUniqueId id;
    ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    std::vector<pid_t> children;
    for (int rank = 0; rank < kRanks; ++rank) {
      std::fflush(nullptr);
      children.push_back(::fork());
      if (children.back() == 0)
        ::_exit(take_part_in_a_process(id, rank, blocking_, order[rank]) ? 0 : 1);
    }
    for (const pid_t child : children) {
      int status = -1;
      ::waitpid(child, &status, 0);
      EXPECT_EQ(status, 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Orders,
                         testing::Combine(testing::Bool(), testing::Values("0", "1")));

// Whether the communicators block or not.
TEST(Leaving, ACommunicatorThatHasFailed) {
  for (const int blocking : {1, 0}) {
    ncclUniqueId id;
    ncclComm_t comms[2] = {};
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = blocking;
    ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    ncclGroupStart();
    for (int r = 0; r < 2; ++r) ncclCommInitRankConfig(&comms[r], 2, id, r, &config);
    ncclGroupEnd();
    for (ncclComm_t comm : comms) ASSERT_EQ(settled(comm), ncclSuccess);
    float data[4] = {};
    ncclGroupStart();
    for (int r = 0; r < 2; ++r)
      ncclAllReduce(data, data + 2, 1 + r, ncclFloat, ncclSum, comms[r], nullptr);
    ncclGroupEnd();
    for (ncclComm_t comm : comms) EXPECT_EQ(settled(comm), ncclInvalidUsage);
    for (ncclComm_t comm : comms) {
      EXPECT_EQ(ncclCommFinalize(comm), ncclInvalidUsage) << "blocking " << blocking;
      EXPECT_NE(std::string(ncclGetLastError(nullptr)).find("count="), std::string::npos)
          << ncclGetLastError(nullptr);
      EXPECT_EQ(ncclCommFinalize(comm), ncclInvalidArgument);
      EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
    }
  }
}

}  // namespace
