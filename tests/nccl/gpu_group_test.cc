// Groups of calls on memory of GPUs, ones made of threads: of several ranks by one thread, and on
// several streams.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "engine/device/cuda.h"
#include "nccl/nccl.h"
#include "tests/nccl/gpu_ranks.h"
#include "tests/support/emulated_cuda.h"

namespace {

using weft::test::Gpu;
using weft::test::on_ranks;
using weft::test::Rank;
using weft::test::use_gpu;
using weft::test::Values;

constexpr size_t kCount = 700;

// The second call of a rank may have to wait for its first, which waits for all others' first.
TEST(GpuGroups, OneThreadMayCallManyTimesForAllRanks) {
  if (*weft::cuda_device_count() < weft::test::kGpus) GTEST_SKIP() << "there is one GPU only";
  constexpr size_t kCalls = 20;  // of as many shapes
  std::vector<std::unique_ptr<Gpu>> gpus;
  for (int i = 0; i < weft::test::kGpus; ++i) gpus.push_back(std::make_unique<Gpu>(i));
  ncclComm_t comms[2] = {};
  ASSERT_EQ(ncclCommInitAll(comms, 2, nullptr), ncclSuccess) << ncclGetLastError(nullptr);
  Values on_host[2] = {Values(kCount, 1), Values(kCount, 2)};
  std::vector<int32_t*> values, sent;
  const Values inputs[2] = {Values(kCount, 1), Values(kCount, 1)};
  for (size_t r = 0; r < 2; ++r) {
    use_gpu(static_cast<int>(r));
    values.push_back(gpus[r]->allocate(kCount));
    sent.push_back(gpus[r]->allocate(2));
    gpus[r]->put(values[r], inputs[r]);
  }
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (size_t r = 0; r < 2; ++r) {
    for (size_t i = 0; i < kCalls; ++i)
      EXPECT_EQ(ncclAllReduce(values[r], values[r], kCount - i, ncclInt32, ncclMax, comms[r],
                              gpus[r]->stream()),
                ncclSuccess);
    EXPECT_EQ(ncclAllReduce(on_host[r].data(), on_host[r].data(), kCount, ncclInt32, ncclSum,
                            comms[r], gpus[r]->stream()),
              ncclSuccess);
    const int peer = r == 0 ? 1 : 0;
    EXPECT_EQ(ncclSend(sent[r], 1, ncclInt32, peer, comms[r], gpus[r]->stream(1)), ncclSuccess);
    EXPECT_EQ(ncclRecv(sent[r] + 1, 1, ncclInt32, peer, comms[r], gpus[r]->stream(1)), ncclSuccess);
  }
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(nullptr);
  for (size_t r = 0; r < 2; ++r) {
    EXPECT_EQ(gpus[r]->get(values[r], kCount), Values(kCount, 1));
    EXPECT_EQ(on_host[r], Values(kCount, 3));
  }
  for (ncclComm_t comm : comms) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

// By the stream engine these are more steps than may be on a stream at once, and each rank's wait
// for the other's.
TEST(GpuGroups, OneThreadMayCallAtLengthForAllRanks) {
  if (*weft::cuda_device_count() < weft::test::kGpus) GTEST_SKIP() << "there is one GPU only";
  constexpr size_t kPairs = 300;
  std::vector<std::unique_ptr<Gpu>> gpus;
  for (int i = 0; i < weft::test::kGpus; ++i) gpus.push_back(std::make_unique<Gpu>(i));
  ncclComm_t comms[2] = {};
  ASSERT_EQ(ncclCommInitAll(comms, 2, nullptr), ncclSuccess) << ncclGetLastError(nullptr);
  Values sent(kPairs);
  for (size_t i = 0; i < kPairs; ++i) sent[i] = static_cast<int32_t>(i * i);
  use_gpu(0);
  int32_t* const from = gpus[0]->allocate(kPairs);
  gpus[0]->put(from, sent);
  use_gpu(1);
  int32_t* const to = gpus[1]->allocate(kPairs);
  gpus[1]->put(to, Values(kPairs, -1));
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (size_t i = 0; i < kPairs; ++i) {
    EXPECT_EQ(ncclSend(from + i, 1, ncclInt32, 1, comms[0], gpus[0]->stream()), ncclSuccess);
    EXPECT_EQ(ncclRecv(to + i, 1, ncclInt32, 0, comms[1], gpus[1]->stream()), ncclSuccess);
  }
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(nullptr);
  EXPECT_EQ(gpus[1]->get(to, kPairs), sent);
  gpus[0]->synchronize();
  for (ncclComm_t comm : comms) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

// In the group's order: were it another one on another rank, each would wait for the other's.
TEST(GpuGroups, CallsOfSeveralCommunicatorsMayShareStreams) {
  if (*weft::cuda_device_count() < weft::test::kGpus) GTEST_SKIP() << "there is one GPU only";
  constexpr size_t kMany = 200'000;
  std::vector<std::unique_ptr<Gpu>> gpus;
  for (int i = 0; i < weft::test::kGpus; ++i) gpus.push_back(std::make_unique<Gpu>(i));
  ncclComm_t comms[2][2] = {};
  for (auto& pair : comms)
    ASSERT_EQ(ncclCommInitAll(pair, 2, nullptr), ncclSuccess) << ncclGetLastError(nullptr);
  int32_t* values[2][2] = {};
  for (size_t r = 0; r < 2; ++r) {
    use_gpu(static_cast<int>(r));
    for (size_t c = 0; c < 2; ++c) {
      values[c][r] = gpus[r]->allocate(kMany);
      gpus[r]->put(values[c][r], Values(kMany, static_cast<int32_t>(c + r)));
    }
    gpus[r]->synchronize();
  }
  for (int round = 0; round < 5; ++round) {
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    for (size_t r = 0; r < 2; ++r)
      for (size_t c = 0; c < 2; ++c)
        EXPECT_EQ(ncclAllReduce(values[c][r], values[c][r], kMany, ncclInt32, ncclMax, comms[c][r],
                                gpus[r]->stream()),
                  ncclSuccess);
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(nullptr);
    for (size_t r = 0; r < 2; ++r) gpus[r]->synchronize();
  }
  for (size_t r = 0; r < 2; ++r)
    for (size_t c = 0; c < 2; ++c)
      EXPECT_EQ(gpus[r]->get(values[c][r], kMany), Values(kMany, static_cast<int32_t>(c + 1)));
  for (auto& pair : comms)
    for (ncclComm_t comm : pair) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

// A second communicator of the same ranks.
struct Second {
  explicit Second(const Rank& rank) {
    EXPECT_EQ(ncclCommSplit(rank.comm, 0, rank.me, &comm, nullptr), ncclSuccess);
  }
  ~Second() { EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess); }
  Second(const Second&) = delete;
  ncclComm_t comm = nullptr;
};

void add_up(int32_t* value, ncclComm_t comm, cudaStream_t stream) {
  EXPECT_EQ(ncclAllReduce(value, value, 1, ncclInt32, ncclSum, comm, stream), ncclSuccess)
      << ncclGetLastError(nullptr);
}

// Of those only two ranks know, and collectives have to be in one order on all.
TEST(GpuGroups, SendsThatComeFirstLeaveCollectivesInTheirOrder) {
  on_ranks(3, [](Rank& r) {
    const Second second(r);
    int32_t* const values = r.gpu.allocate(3);
    r.gpu.put(values, {r.me + 1, r.me + 2, -1});
    EXPECT_EQ(ncclGroupStart(), ncclSuccess);
    if (r.me == 0) {
      EXPECT_EQ(ncclSend(values, 1, ncclInt32, 1, r.comm, r.gpu.stream()), ncclSuccess);
    }
    if (r.me == 1) {
      EXPECT_EQ(ncclRecv(values + 2, 1, ncclInt32, 0, r.comm, r.gpu.stream()), ncclSuccess);
    }
    add_up(values, second.comm, r.gpu.stream());
    add_up(values + 1, r.comm, r.gpu.stream());
    EXPECT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(nullptr);
    EXPECT_EQ(r.gpu.get(values, 3), Values({6, 9, r.me == 1 ? 6 : -1}));
  });
}

// They go by communicator, and those in one order on all ranks.
TEST(GpuGroups, SendsOfSeveralCommunicatorsMayBeInAnyOrder) {
  on_ranks(2, [](Rank& r) {
    const Second second(r);
    const ncclComm_t comms[] = {r.comm, second.comm};
    int32_t* const values = r.gpu.allocate(4);
    r.gpu.put(values, {r.me, r.me + 10, -1, -1});
    EXPECT_EQ(ncclGroupStart(), ncclSuccess);
    for (int i = 0; i < 2; ++i) {
      const int c = (r.me + i) % 2;
      EXPECT_EQ(ncclSend(values + c, 1, ncclInt32, 1 - r.me, comms[c], r.gpu.stream()),
                ncclSuccess);
      EXPECT_EQ(ncclRecv(values + 2 + c, 1, ncclInt32, 1 - r.me, comms[c], r.gpu.stream()),
                ncclSuccess);
    }
    EXPECT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(nullptr);
    EXPECT_EQ(r.gpu.get(values + 2, 2), Values({1 - r.me, 11 - r.me}));
  });
}

// One rank's group has them all; the other makes them one by one.
TEST(GpuGroups, CollectivesOfAStreamStayInOrderWhateverElseIsInTheGroup) {
  on_ranks(2, [](Rank& r) {
    const Second second(r);
    int32_t* const values = r.gpu.allocate(3);
    r.gpu.put(values, {r.me, r.me + 1, r.me + 2});
    if (r.me == 0) {
      EXPECT_EQ(ncclGroupStart(), ncclSuccess);
    }
    add_up(values, r.comm, r.gpu.stream());
    add_up(values + 1, r.comm, r.gpu.stream());
    add_up(values + 2, second.comm, r.gpu.stream());
    if (r.me == 0) {
      EXPECT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(nullptr);
    }
    EXPECT_EQ(r.gpu.get(values, 3), Values({1, 3, 5}));
  });
}

// Some ranks of two communicators, by one thread; `grouped`: all of their calls at once.
void be_ranks(const ncclUniqueId (&ids)[2], const std::vector<int>& ranks, bool grouped) {
  std::vector<std::unique_ptr<Gpu>> gpus;
  std::vector<std::array<ncclComm_t, 2>> comms(ranks.size());
  for (const int rank : ranks) gpus.push_back(std::make_unique<Gpu>(rank % 2));
  for (size_t c = 0; c < 2; ++c) {
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    for (size_t i = 0; i < ranks.size(); ++i) {
      use_gpu(ranks[i] % 2);
      EXPECT_EQ(ncclCommInitRank(&comms[i][c], 3, ids[c], ranks[i]), ncclSuccess);
    }
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(nullptr);
  }
  std::vector<int32_t*> values;
  for (const auto& gpu : gpus) {
    values.push_back(gpu->allocate(3));
    gpu->put(values.back(), {1, 2, 3});
  }
  if (grouped) {
    EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  }
  for (size_t i = 0; i < ranks.size(); ++i)
    for (size_t k = 0; k < 3; ++k) add_up(values[i] + k, comms[i][k / 2], gpus[i]->stream());
  if (grouped) {
    EXPECT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(nullptr);
  }
  for (size_t i = 0; i < ranks.size(); ++i)
    EXPECT_EQ(gpus[i]->get(values[i], 3), Values({3, 6, 9}));
  for (const auto& both : comms)
    for (ncclComm_t comm : both) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

// The same where one thread is two ranks.
TEST(GpuGroups, CollectivesOfEachRankOfAThreadStayInOrder) {
  if (*weft::cuda_device_count() < weft::test::kGpus) GTEST_SKIP() << "there is one GPU only";
  weft::ask_for_device_queues();
  ncclUniqueId ids[2];
  for (ncclUniqueId& id : ids) ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  weft::test::on_threads(2, [&](int thread) {
    be_ranks(ids, thread == 0 ? std::vector<int>{0, 1} : std::vector<int>{2}, thread == 0);
  });
}

// Whichever of its streams is named first.
TEST(GpuGroups, AreCapturedOnAllTheirStreamsOrNone) {
  on_ranks(1, [](Rank& r) {
    int32_t* const values = r.gpu.allocate(2);
    const auto capture = [&] {
      for (const size_t sender : {0, 1}) {
        EXPECT_EQ(ncclGroupStart(), ncclSuccess);
        EXPECT_EQ(ncclSend(values, 1, ncclInt32, 0, r.comm, r.gpu.stream(sender)), ncclSuccess);
        EXPECT_EQ(ncclRecv(values + 1, 1, ncclInt32, 0, r.comm, r.gpu.stream(1 - sender)),
                  ncclSuccess);
        EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument) << sender;
        EXPECT_NE(std::string(ncclGetLastError(nullptr)).find("capture all streams"),
                  std::string::npos)
            << ncclGetLastError(nullptr);
      }
    };
    r.gpu.run_graph(capture, [] { return false; });
    r.gpu.put(values, {7, 0}, 1);  // that stream is no part of the graph
    EXPECT_EQ(r.gpu.get(values, 1, 1), Values({7}));
  });
}

}  // namespace
