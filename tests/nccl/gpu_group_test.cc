// Groups of calls on memory of GPUs, ones made of threads: of several ranks by one thread, and on
// several streams.
#include <gtest/gtest.h>

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
