// Communicators that do not block, abort, growth, and ranks that go away. Threads of one process
// are the ranks; the shared library is called as programs do.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "nccl/nccl.h"
#include "tests/nccl/threads.h"

namespace {

using std::chrono::milliseconds;
using weft::test::not_blocking;
using weft::test::on_threads;
using weft::test::settled;

// A group's end is what starts what is in it, and says how that went.
TEST(NotBlocking, CommunicatorsAreMadeByTheGroupsEnd) {
  ncclComm_t comms[2] = {};
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ncclConfig_t config = not_blocking();
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (int r = 0; r < 2; ++r)
    EXPECT_EQ(ncclCommInitRankConfig(&comms[r], 2, id, r, &config), ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclInProgress);
  for (ncclComm_t comm : comms) EXPECT_EQ(settled(comm), ncclSuccess);
  ncclComm_t halves[2] = {};
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (int r = 0; r < 2; ++r)
    EXPECT_EQ(ncclCommSplit(comms[r], r, 0, &halves[r], nullptr), ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclInProgress);
  for (int r = 0; r < 2; ++r) {
    EXPECT_EQ(settled(comms[r]), ncclSuccess);
    EXPECT_EQ(settled(halves[r]), ncclSuccess);
    EXPECT_EQ(ncclCommAbort(halves[r]), ncclSuccess);
    EXPECT_EQ(ncclCommAbort(comms[r]), ncclSuccess);
  }
}

TEST(NotBlocking, OneThreadIsAllRanks) {
  constexpr int kRanks = 3;
  ncclComm_t comms[kRanks] = {};
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ncclConfig_t config = not_blocking();
  for (int r = 0; r < kRanks; ++r) {
    EXPECT_EQ(ncclCommInitRankConfig(&comms[r], kRanks, id, r, &config), ncclInProgress);
    ASSERT_NE(comms[r], nullptr);
  }
  for (ncclComm_t comm : comms) EXPECT_EQ(settled(comm), ncclSuccess);

  float in[kRanks], out[kRanks] = {};
  for (int r = 0; r < kRanks; ++r) {
    in[r] = static_cast<float>(r + 1);
    EXPECT_EQ(ncclAllReduce(&in[r], &out[r], 1, ncclFloat, ncclSum, comms[r], nullptr),
              ncclInProgress);
  }
  for (int r = 0; r < kRanks; ++r) {
    EXPECT_EQ(settled(comms[r]), ncclSuccess);
    EXPECT_EQ(out[r], 6);
  }
  ncclComm_t parts[kRanks] = {};
  for (int r = 0; r < kRanks; ++r) {
    const ncclResult_t said =
        ncclCommSplit(comms[r], r == 0 ? NCCL_SPLIT_NOCOLOR : 1, r, &parts[r], nullptr);
    EXPECT_EQ(said, ncclInProgress);
    EXPECT_EQ(parts[r] == nullptr, r == 0);
  }
  for (int r = 0; r < kRanks; ++r) {
    EXPECT_EQ(settled(comms[r]), ncclSuccess);
    if (parts[r]) {
      EXPECT_EQ(settled(parts[r]), ncclSuccess);
    }
  }
  int count = 0;
  EXPECT_EQ(ncclCommCount(parts[1], &count), ncclSuccess);
  EXPECT_EQ(count, 2);
  for (int r = 0; r < kRanks; ++r) {
    ncclCommFinalize(comms[r]);
    EXPECT_EQ(settled(comms[r]), ncclSuccess);
    EXPECT_EQ(ncclCommDestroy(comms[r]), ncclSuccess);
    EXPECT_EQ(ncclCommDestroy(parts[r]), ncclSuccess);
  }
}

TEST(NotBlocking, CallsBeforeItIsMadeAreRefused) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ncclConfig_t config = not_blocking();
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 2, id, 0, &config), ncclInProgress);  // alone
  float x = 0;
  int count = 0;
  EXPECT_EQ(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, comm, nullptr), ncclInvalidArgument);
  EXPECT_NE(std::string(ncclGetLastError(nullptr)).find("in progress"), std::string::npos);
  EXPECT_EQ(ncclCommCount(comm, &count), ncclInvalidArgument);
  ncclResult_t state = ncclSuccess;
  EXPECT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
  EXPECT_EQ(state, ncclInProgress);
  EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);  // though nobody ever came
  EXPECT_EQ(ncclCommGetAsyncError(comm, &state), ncclInvalidArgument);
}

TEST(NotBlocking, AndBlockingInOneGroup) {
  ncclUniqueId ids[2];
  ncclComm_t comms[2] = {};
  ncclConfig_t config = not_blocking();
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(ncclGetUniqueId(&ids[i]), ncclSuccess);
    ncclCommInitRankConfig(&comms[i], 1, ids[i], 0, i == 0 ? &config : nullptr);
  }
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
  EXPECT_EQ(comms[0], nullptr);
  EXPECT_EQ(comms[1], nullptr);
}

// A rank that waits is let go by another one that aborts.
TEST(Abort, EndsTheOthersCalls) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  on_threads(2, [&](int rank) {
    ncclComm_t comm = nullptr;
    ASSERT_EQ(ncclCommInitRank(&comm, 2, id, rank), ncclSuccess);
    float x = 1;
    if (rank == 1) {
      std::this_thread::sleep_for(milliseconds(100));
      EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
      return;
    }
    EXPECT_EQ(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, comm, nullptr), ncclRemoteError);
    ncclResult_t state = ncclSuccess;
    EXPECT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
    EXPECT_EQ(state, ncclRemoteError);
    EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
  });
}

// Its own, from another thread, as watchdogs do.
TEST(Abort, EndsTheOwnCall) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  on_threads(2, [&](int rank) {
    ncclComm_t comm = nullptr;
    ASSERT_EQ(ncclCommInitRank(&comm, 2, id, rank), ncclSuccess);
    float x = 1;
    std::thread watchdog([comm, rank] {
      std::this_thread::sleep_for(milliseconds(rank == 0 ? 100 : 300));
      EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
    });
    if (rank == 0) {
      EXPECT_EQ(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, comm, nullptr), ncclRemoteError);
    }
    watchdog.join();
  });
}

int threads() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<int>(std::distance(begin(tasks), end(tasks)));
}

// Of three ranks two wait for the third; then one of them gives up. Nobody waits on, not even who
// comes late, and no thread is left but that of the id.
TEST(Abort, EndsTheMaking) {
  for (const auto give_up : {ncclCommAbort, ncclCommDestroy})
    for (const int who : {0, 1}) {
      const int before = threads();
      ncclUniqueId id;
      ncclComm_t comms[3] = {};
      ncclConfig_t config = not_blocking();
      ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
      for (const int r : {0, 1})
        EXPECT_EQ(ncclCommInitRankConfig(&comms[r], 3, id, r, &config), ncclInProgress);
      std::this_thread::sleep_for(milliseconds(500));
      const auto soon = std::chrono::steady_clock::now() + milliseconds(5000);
      EXPECT_EQ(give_up(comms[who]), ncclSuccess);
      EXPECT_EQ(settled(comms[1 - who]), ncclRemoteError);
      while (threads() > before + 1 && std::chrono::steady_clock::now() < soon)
        std::this_thread::sleep_for(milliseconds(1));
      EXPECT_EQ(ncclCommInitRank(&comms[2], 3, id, 2), ncclRemoteError);
      EXPECT_LT(std::chrono::steady_clock::now(), soon);
      EXPECT_EQ(ncclCommAbort(comms[1 - who]), ncclSuccess);
    }
}

// A call that waits for ranks that never come, ended by another thread.
TEST(Abort, EndsABlockedInit) {
  for (const int rank : {0, 1}) {
    ncclUniqueId id;
    ncclComm_t comm = nullptr;
    ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    ASSERT_EQ(ncclCommInitRank(&comm, 2, id, rank), ncclSuccess);  // waits at the group's end
    std::chrono::steady_clock::time_point aborted;
    std::thread watchdog([&aborted, handle = comm] {
      std::this_thread::sleep_for(milliseconds(200));
      aborted = std::chrono::steady_clock::now();
      EXPECT_EQ(ncclCommAbort(handle), ncclSuccess);
    });
    EXPECT_EQ(ncclGroupEnd(), ncclRemoteError);
    watchdog.join();
    EXPECT_LT(std::chrono::steady_clock::now(), aborted + milliseconds(1000));
    EXPECT_NE(std::string(ncclGetLastError(nullptr)).find("aborted while"), std::string::npos);
    EXPECT_EQ(comm, nullptr);
  }
}

// One rank is in a call that cannot end; both shrink out of it.
TEST(Shrink, EndsWhatIsUnderWay) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  on_threads(3, [&](int rank) {
    ncclComm_t comm = nullptr, rest = nullptr;
    ASSERT_EQ(ncclCommInitRank(&comm, 3, id, rank), ncclSuccess);
    float x = 1;
    if (rank == 2) {  // is lost
      std::this_thread::sleep_for(milliseconds(100));
      EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
      return;
    }
    EXPECT_EQ(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, comm, nullptr), ncclRemoteError);
    int lost[] = {2};
    ASSERT_EQ(ncclCommShrink(comm, lost, 1, &rest, nullptr, NCCL_SHRINK_ABORT), ncclSuccess);
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
    x = static_cast<float>(rank + 1);
    EXPECT_EQ(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, rest, nullptr), ncclSuccess);
    EXPECT_EQ(x, 3);
    EXPECT_EQ(ncclCommDestroy(rest), ncclSuccess);
  });
}

// The same where nobody blocks, and the failure has been asked for.
TEST(Shrink, WhereThePolledCallHasFailed) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  on_threads(3, [&](int rank) {
    ncclConfig_t config = not_blocking();
    ncclComm_t comm = nullptr, rest = nullptr;
    EXPECT_EQ(ncclCommInitRankConfig(&comm, 3, id, rank, &config), ncclInProgress);
    ASSERT_EQ(settled(comm), ncclSuccess);
    if (rank == 2) {  // is lost
      std::this_thread::sleep_for(milliseconds(100));
      EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
      return;
    }
    float x = 1;
    EXPECT_EQ(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, comm, nullptr), ncclInProgress);
    EXPECT_EQ(settled(comm), ncclRemoteError);
    EXPECT_EQ(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, comm, nullptr), ncclRemoteError);
    int lost[] = {2};
    ASSERT_EQ(ncclCommShrink(comm, lost, 1, &rest, nullptr, NCCL_SHRINK_ABORT), ncclInProgress);
    ASSERT_EQ(settled(rest), ncclSuccess);
    EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
    x = static_cast<float>(rank + 1);
    EXPECT_EQ(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, rest, nullptr), ncclInProgress);
    EXPECT_EQ(settled(rest), ncclSuccess);
    EXPECT_EQ(x, 3);
    EXPECT_EQ(ncclCommDestroy(rest), ncclSuccess);
  });
}

TEST(Revoke, LeavesShrinking) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  on_threads(3, [&](int rank) {
    ncclComm_t comm = nullptr, rest = nullptr;
    ASSERT_EQ(ncclCommInitRank(&comm, 3, id, rank), ncclSuccess);
    EXPECT_EQ(ncclCommRevoke(comm, 0), ncclSuccess);
    int lost[] = {0};
    if (rank > 0) {
      ASSERT_EQ(ncclCommShrink(comm, lost, 1, &rest, nullptr, 0), ncclSuccess);
      int count = 0;
      EXPECT_EQ(ncclCommCount(rest, &count), ncclSuccess);
      EXPECT_EQ(count, 2);
    }
    EXPECT_EQ(ncclCommDestroy(rest), ncclSuccess);
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  });
}

TEST(Revoke, EndsCallsThatNobodyBlocksFor) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  on_threads(2, [&](int rank) {
    ncclConfig_t config = not_blocking();
    ncclComm_t comm = nullptr;
    EXPECT_EQ(ncclCommInitRankConfig(&comm, 2, id, rank, &config), ncclInProgress);
    ASSERT_EQ(settled(comm), ncclSuccess);
    float x = 1;
    if (rank == 1) {
      EXPECT_EQ(ncclRecv(&x, 1, ncclFloat, 0, comm, nullptr), ncclInProgress);
    }
    EXPECT_EQ(ncclCommRevoke(comm, 0), ncclSuccess);
    EXPECT_EQ(settled(comm), ncclSuccess);
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  });
}

// A watchdog sees nothing in progress where another thread blocks in a call that makes something.
TEST(Blocking, ATaskOfAnotherThreadIsNotInProgress) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ncclComm_t comms[2] = {};
  on_threads(
      2, [&](int rank) { ASSERT_EQ(ncclCommInitRank(&comms[rank], 2, id, rank), ncclSuccess); });
  std::thread early([&] {
    ncclComm_t part = nullptr;
    EXPECT_EQ(ncclCommSplit(comms[0], 0, 0, &part, nullptr), ncclSuccess);
    EXPECT_EQ(ncclCommDestroy(part), ncclSuccess);
  });
  for (int i = 0; i < 100; ++i) {
    ncclResult_t state = ncclInternalError;
    EXPECT_EQ(ncclCommGetAsyncError(comms[0], &state), ncclSuccess);
    EXPECT_EQ(state, ncclSuccess);
    std::this_thread::sleep_for(milliseconds(1));
  }
  ncclComm_t part = nullptr;
  EXPECT_EQ(ncclCommSplit(comms[1], 0, 0, &part, nullptr), ncclSuccess);
  early.join();
  EXPECT_EQ(ncclCommDestroy(part), ncclSuccess);
  for (ncclComm_t comm : comms) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

// Two ranks become four; rank 1, say, leads. Those that are there keep their ranks.
TEST(Grow, KeepsRanks) {
  ncclUniqueId id, more;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ncclComm_t pair[2] = {};
  on_threads(2,
             [&](int rank) { ASSERT_EQ(ncclCommInitRank(&pair[rank], 2, id, rank), ncclSuccess); });
  ASSERT_EQ(ncclCommGetUniqueId(pair[1], &more), ncclSuccess);
  on_threads(4, [&](int rank) {
    ncclComm_t grown = nullptr;
    if (rank < 2) {
      ASSERT_EQ(ncclCommGrow(pair[rank], 4, rank == 1 ? &more : nullptr, -1, &grown, nullptr),
                ncclSuccess);
    } else {
      ASSERT_EQ(ncclCommGrow(nullptr, 4, &more, rank, &grown, nullptr), ncclSuccess);
    }
    int own = -1, out[4] = {};
    EXPECT_EQ(ncclCommUserRank(grown, &own), ncclSuccess);
    EXPECT_EQ(own, rank);
    EXPECT_EQ(ncclAllGather(&own, out, 1, ncclInt, grown, nullptr), ncclSuccess);
    for (int r = 0; r < 4; ++r) EXPECT_EQ(out[r], r);
    EXPECT_EQ(ncclCommDestroy(grown), ncclSuccess);
    if (rank < 2) {
      EXPECT_EQ(ncclCommDestroy(pair[rank]), ncclSuccess);
    }
  });
}

// What growing says to the ranks that are there is of its own: no call of a user's meets it, not
// even one like those that it is made of. Ids that differ, and none, are errors on all ranks.
TEST(Grow, WhatDoesNotFit) {
  enum class Wrong { call, ids, none };
  for (const Wrong wrong : {Wrong::ids, Wrong::none, Wrong::call}) {
    ncclUniqueId id, more[2];
    ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    ncclComm_t pair[2] = {};
    on_threads(
        2, [&](int rank) { ASSERT_EQ(ncclCommInitRank(&pair[rank], 2, id, rank), ncclSuccess); });
    for (int rank = 0; rank < 2; ++rank)
      ASSERT_EQ(ncclCommGetUniqueId(pair[rank], &more[rank]), ncclSuccess);
    on_threads(2, [&](int rank) {
      char all[2 * NCCL_UNIQUE_ID_BYTES] = {};
      ncclComm_t grown = pair[rank];
      if (wrong == Wrong::call && rank == 1) {
        EXPECT_NE(ncclAllGather(&id, all, 1, ncclUint64, pair[rank], nullptr), ncclSuccess);
      } else {
        EXPECT_EQ(ncclCommGrow(pair[rank], 3, wrong == Wrong::none ? nullptr : &more[rank], -1,
                               &grown, nullptr),
                  ncclInvalidUsage);
        EXPECT_EQ(grown, nullptr);
      }
      EXPECT_EQ(ncclCommDestroy(pair[rank]), ncclSuccess);
    });
  }
}

TEST(Scalable, SeveralIds) {
  ncclUniqueId ids[2];
  for (ncclUniqueId& id : ids) ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  on_threads(4, [&](int rank) {
    ncclComm_t comm = nullptr;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ASSERT_EQ(ncclCommInitRankScalable(&comm, 4, rank, 2, ids, &config), ncclSuccess);
    int one = 1;
    EXPECT_EQ(ncclAllReduce(&one, &one, 1, ncclInt, ncclSum, comm, nullptr), ncclSuccess);
    EXPECT_EQ(one, 4);
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  });
}

// The ranks contradict each other: each is told, none waits for long.
TEST(Init, DifferentNumbersOfRanks) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  on_threads(2, [&](int rank) {
    ncclComm_t comm = nullptr;
    EXPECT_EQ(ncclCommInitRank(&comm, 2 + rank, id, rank), ncclInvalidUsage);
    EXPECT_EQ(comm, nullptr);
  });
}

}  // namespace
