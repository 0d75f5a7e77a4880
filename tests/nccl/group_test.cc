// Groups that make communicators: those of one parent, and what else the group calls of the parent.
// Threads of one process are the ranks; the shared library is called as programs do.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "nccl/nccl.h"
#include "tests/nccl/threads.h"
#include "tests/support/thread_limit.h"

namespace {

using weft::test::not_blocking;
using weft::test::on_threads;
using weft::test::settled;
using weft::test::ThreadLimit;

// With communicators that block (true), and such that do not.
class Family : public testing::TestWithParam<bool> {
 protected:
  // Runs `body` with a communicator of so many ranks.
  static void on_ranks(int ranks, const std::function<void(ncclComm_t, int)>& body) {
    ncclUniqueId id;
    ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    ncclConfig_t config = not_blocking();
    on_threads(ranks, [&](int rank) {
      ncclComm_t comm = nullptr;
      const ncclResult_t made =
          ncclCommInitRankConfig(&comm, ranks, id, rank, GetParam() ? nullptr : &config);
      ASSERT_EQ(ended(made, {comm}), ncclSuccess);
      body(comm, rank);
      EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
    });
  }

  // What a call has said in the end, on whichever of the communicators.
  static ncclResult_t ended(ncclResult_t said, std::vector<ncclComm_t> comms) {
    EXPECT_NE(said, GetParam() ? ncclInProgress : ncclSuccess);
    if (said != ncclInProgress) return said;
    ncclResult_t worst = ncclSuccess;
    for (ncclComm_t comm : comms)
      if (const ncclResult_t state = settled(comm); worst == ncclSuccess) worst = state;
    return worst;
  }

  static ncclResult_t gather(ncclComm_t comm, const int& own, std::array<int, 2>& all) {
    return ncclAllGather(&own, all.data(), 1, ncclInt, comm, nullptr);
  }

  static void expect_rank(ncclComm_t comm, int rank) {
    int own = -1;
    EXPECT_EQ(ncclCommUserRank(comm, &own), ncclSuccess);
    EXPECT_EQ(own, rank);
  }
};
INSTANTIATE_TEST_SUITE_P(Modes, Family, testing::Bool(), [](const auto& test) {
  return std::string(test.param ? "Blocking" : "NotBlocking");
});

// In the order of their calls: the parent's collectives that make them must not mix.
TEST_P(Family, ChildrenOfOneParentTakeTurns) {
  for (int round = 0; round < 20; ++round)
    on_ranks(2, [&](ncclComm_t parent, int rank) {
      ncclComm_t same = nullptr, reversed = nullptr;
      ncclGroupStart();
      ncclCommSplit(parent, 0, rank, &same, nullptr);
      ncclCommSplit(parent, 0, -rank, &reversed, nullptr);
      ASSERT_EQ(ended(ncclGroupEnd(), {parent, same, reversed}), ncclSuccess) << round;
      expect_rank(same, rank);
      expect_rank(reversed, 1 - rank);
      for (ncclComm_t child : {same, reversed}) EXPECT_EQ(ncclCommAbort(child), ncclSuccess);
    });
}

// One rank makes all calls in a group, the other one after the other.
TEST_P(Family, CallsOfTheParentKeepTheirPlaces) {
  for (int round = 0; round < 5; ++round)
    on_ranks(2, [&](ncclComm_t parent, int rank) {
      ncclComm_t first = nullptr, second = nullptr;
      std::array<int, 4> own{};
      for (int i = 0; i < 4; ++i) own[i] = 10 * rank + i;
      std::array<int, 2> all[3] = {};
      const std::vector<std::function<ncclResult_t()>> calls{
          [&] { return gather(parent, own[0], all[0]); },
          [&] {
            return rank == 0 ? ncclSend(&own[3], 1, ncclInt, 1, parent, nullptr)
                             : ncclRecv(&own[3], 1, ncclInt, 0, parent, nullptr);
          },
          [&] { return ncclCommSplit(parent, 0, rank, &first, nullptr); },
          [&] { return gather(parent, own[1], all[1]); },
          [&] { return ncclCommSplit(parent, 0, -rank, &second, nullptr); },
          [&] { return gather(parent, own[2], all[2]); }};
      if (rank == 0) ncclGroupStart();
      for (const auto& call : calls) {
        const ncclResult_t said = call();
        if (rank == 1) {
          EXPECT_EQ(ended(said, {parent}), ncclSuccess);
        }
      }
      if (rank == 0) {
        EXPECT_EQ(ended(ncclGroupEnd(), {parent, first, second}), ncclSuccess)
            << ncclGetLastError(parent);
      }
      ASSERT_TRUE(first && second);
      for (int i = 0; i < 3; ++i) EXPECT_EQ(all[i], (std::array{i, 10 + i})) << i;
      EXPECT_EQ(own[3], 3);
      for (ncclComm_t child : {first, second}) EXPECT_EQ(settled(child), ncclSuccess);
      expect_rank(first, rank);
      expect_rank(second, 1 - rank);
      for (ncclComm_t child : {first, second}) EXPECT_EQ(ncclCommAbort(child), ncclSuccess);
    });
}

// It is the group's end that starts them: each call by itself is done, as NCCL says.
TEST_P(Family, CallsInAGroupSucceed) {
  on_ranks(2, [&](ncclComm_t comm, int rank) {
    int own = rank + 1, other = 0, sum = 0;
    EXPECT_EQ(ncclGroupStart(), ncclSuccess);
    EXPECT_EQ(ncclSend(&own, 1, ncclInt, 1 - rank, comm, nullptr), ncclSuccess);
    EXPECT_EQ(ncclRecv(&other, 1, ncclInt, 1 - rank, comm, nullptr), ncclSuccess);
    EXPECT_EQ(ncclAllReduce(&own, &sum, 1, ncclInt, ncclSum, comm, nullptr), ncclSuccess);
    EXPECT_EQ(ended(ncclGroupEnd(), {comm}), ncclSuccess);
    EXPECT_EQ(other, 2 - rank);
    EXPECT_EQ(sum, 3);
  });
}

// Whether making a child waits is the parent's affair, what the child's calls do its own.
TEST_P(Family, AChildIsMadeAsItsParentCalls) {
  on_ranks(2, [&](ncclComm_t parent, int rank) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = GetParam() ? 0 : 1;
    ncclComm_t child = nullptr;
    const ncclResult_t said = ncclCommSplit(parent, 0, -rank, &child, &config);
    ASSERT_EQ(ended(said, {parent, child}), ncclSuccess);
    expect_rank(child, 1 - rank);
    int own = 1, sum = 0;
    EXPECT_EQ(ncclAllReduce(&own, &sum, 1, ncclInt, ncclSum, child, nullptr),
              GetParam() ? ncclInProgress : ncclSuccess);
    EXPECT_EQ(settled(child), ncclSuccess);
    EXPECT_EQ(sum, 2);
    EXPECT_EQ(ended(ncclAllReduce(&own, &sum, 1, ncclInt, ncclSum, parent, nullptr), {parent}),
              ncclSuccess);
    EXPECT_EQ(ncclCommAbort(child), ncclSuccess);
  });
}

// One thread, which would wait for itself if making its children waited, whatever they are.
TEST(OneThread, SplitsAllRanksOfAParentThatDoesNotBlock) {
  ncclUniqueId id;
  ncclComm_t parents[2] = {}, children[2] = {};
  ncclConfig_t config = not_blocking(), unsaid = NCCL_CONFIG_INITIALIZER;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  for (int r = 0; r < 2; ++r) ncclCommInitRankConfig(&parents[r], 2, id, r, &config);
  for (ncclComm_t parent : parents) ASSERT_EQ(settled(parent), ncclSuccess);
  for (int r = 0; r < 2; ++r)
    ASSERT_EQ(ncclCommSplit(parents[r], 0, r, &children[r], &unsaid), ncclInProgress);
  for (int r = 0; r < 2; ++r) {
    EXPECT_EQ(settled(parents[r]), ncclSuccess);
    EXPECT_EQ(settled(children[r]), ncclSuccess);
    EXPECT_EQ(ncclCommAbort(children[r]), ncclSuccess);
    EXPECT_EQ(ncclCommAbort(parents[r]), ncclSuccess);
  }
}

// Shrinking wants a parent without calls under way.
TEST_P(Family, ShrinkingWaitsForTheCallsBefore) {
  std::vector<float> data[3];
  for (std::vector<float>& each : data) each.assign(1 << 20, 1);
  on_ranks(3, [&](ncclComm_t parent, int rank) {
    float* const mine = data[rank].data();
    ncclComm_t rest = nullptr;
    int left_out = 2;
    ncclGroupStart();
    ncclAllReduce(mine, mine, data[rank].size(), ncclFloat, ncclSum, parent, nullptr);
    if (rank < 2) ncclCommShrink(parent, &left_out, 1, &rest, nullptr, NCCL_SHRINK_DEFAULT);
    EXPECT_EQ(ended(ncclGroupEnd(), rest ? std::vector{parent, rest} : std::vector{parent}),
              ncclSuccess)
        << ncclGetLastError(parent);
    EXPECT_EQ(data[rank].back(), 3);
    if (rest) expect_rank(rest, rank);
    EXPECT_EQ(ncclCommAbort(rest), ncclSuccess);
  });
}

// What follows in the group is not run, and who asks for it is told.
TEST_P(Family, CallsAfterOneThatWasNotMade) {
  on_ranks(2, [&](ncclComm_t parent, int rank) {
    ncclComm_t grown = nullptr;
    ncclUniqueId none{"none"};
    std::array<int, 2> before{}, after{-1, -1};
    ncclGroupStart();
    gather(parent, rank, before);
    ncclCommGrow(parent, 3, &none, -1, &grown, nullptr);
    gather(parent, rank, after);
    EXPECT_EQ(ended(ncclGroupEnd(), {parent}), ncclInvalidArgument);
    EXPECT_EQ(before, (std::array{0, 1}));
    EXPECT_EQ(after, (std::array{-1, -1}));
    if (GetParam()) {
      EXPECT_EQ(grown, nullptr);
      EXPECT_EQ(ended(gather(parent, rank, after), {parent}), ncclSuccess);
    } else {
      EXPECT_EQ(settled(grown), ncclInvalidArgument);
      EXPECT_NE(std::string(ncclGetLastError(parent)).find("not started"), std::string::npos);
      EXPECT_EQ(ncclCommAbort(grown), ncclSuccess);
    }
  });
}

// It is there when the group has ended.
TEST(NotYet, CallsInTheGroupThatMakesIt) {
  ncclUniqueId id;
  ncclComm_t comm = nullptr;
  float x = 1;
  int count = 0;
  const auto expect_not_yet = [](ncclResult_t result) {
    EXPECT_EQ(result, ncclInvalidArgument);
    const std::string said = ncclGetLastError(nullptr);
    EXPECT_NE(said.find("when the group"), std::string::npos) << said;
    EXPECT_NE(said.find("ncclGroupEnd"), std::string::npos) << said;
  };
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ncclGroupStart();
  EXPECT_EQ(ncclCommInitRank(&comm, 1, id, 0), ncclSuccess);
  expect_not_yet(ncclCommCount(comm, &count));
  expect_not_yet(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, comm, nullptr));
  expect_not_yet(ncclGroupEnd());
  EXPECT_EQ(comm, nullptr);
}

bool says_limit() {
  return std::string(ncclGetLastError(nullptr)).find("ulimit -u") != std::string::npos;
}

TEST(NoThreads, NoUniqueId) {
  const ThreadLimit none(0);
  if (!none.holds()) GTEST_SKIP() << "the limit on threads does not hold here";
  ncclUniqueId id;
  EXPECT_EQ(ncclGetUniqueId(&id), ncclSystemError);
  EXPECT_TRUE(says_limit());
}

// Those that are there would wait for the others.
TEST(NoThreads, AGroupDoesNotStart) {
  for (const bool blocking : {true, false}) {
    ncclUniqueId id;
    ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    const ThreadLimit two(2);
    if (!two.holds()) GTEST_SKIP() << "this limit needs root";
    ncclComm_t comms[4] = {};
    ncclConfig_t config = not_blocking();
    const auto begin = std::chrono::steady_clock::now();
    ncclGroupStart();
    for (int r = 0; r < 4; ++r)
      ncclCommInitRankConfig(&comms[r], 4, id, r, blocking ? nullptr : &config);
    EXPECT_EQ(ncclGroupEnd(), ncclSystemError);
    EXPECT_TRUE(says_limit());
    EXPECT_LT(std::chrono::steady_clock::now(), begin + std::chrono::seconds(10));
    for (ncclComm_t comm : comms) EXPECT_EQ(comm, nullptr);
  }
}

// One thread is both ranks. The parent is as it was.
TEST(NoThreads, NoChild) {
  ncclUniqueId id;
  ncclComm_t parents[2] = {}, children[2] = {};
  ncclConfig_t config = not_blocking();
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  for (int r = 0; r < 2; ++r) ncclCommInitRankConfig(&parents[r], 2, id, r, &config);
  for (ncclComm_t parent : parents) ASSERT_EQ(settled(parent), ncclSuccess);
  int in[2] = {1, 2}, out[2] = {};
  {
    const ThreadLimit none(0);
    if (!none.holds()) GTEST_SKIP() << "the limit on threads does not hold here";
    for (int r = 0; r < 2; ++r) {
      ncclGroupStart();
      ncclAllReduce(&in[r], &out[r], 1, ncclInt, ncclSum, parents[r], nullptr);
      ncclCommSplit(parents[r], 0, r, &children[r], nullptr);
      ncclAllReduce(&in[r], &out[r], 1, ncclInt, ncclSum, parents[r], nullptr);
      EXPECT_EQ(ncclGroupEnd(), ncclSystemError);
      EXPECT_TRUE(says_limit());
      EXPECT_EQ(children[r], nullptr);
      EXPECT_EQ(settled(parents[r]), ncclSuccess);
    }
  }
  for (int r = 0; r < 2; ++r)
    EXPECT_EQ(ncclAllReduce(&in[r], &out[r], 1, ncclInt, ncclMax, parents[r], nullptr),
              ncclInProgress);
  for (int r = 0; r < 2; ++r) {
    EXPECT_EQ(settled(parents[r]), ncclSuccess);
    EXPECT_EQ(out[r], 2);
    EXPECT_EQ(ncclCommAbort(parents[r]), ncclSuccess);
  }
}

}  // namespace
