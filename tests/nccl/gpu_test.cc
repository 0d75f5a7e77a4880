// Memory of GPUs, on ones made of threads: what is called goes on streams, in their order.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <latch>
#include <string>
#include <utility>

#include "base/text.h"
#include "engine/device/cuda.h"
#include "nccl/nccl.h"
#include "tests/nccl/gpu_ranks.h"
#include "tests/support/emulated_cuda.h"

namespace {

using weft::test::Gpu;
using weft::test::not_blocking;
using weft::test::on_ranks;
using weft::test::Rank;
using weft::test::settled;
using weft::test::use_gpu;
using weft::test::Values;

constexpr size_t kCount = 700;

int32_t value(int rank, size_t i) { return static_cast<int32_t>((rank + 1) * 1000 + i % 997); }
Values input(int rank, size_t count) {
  Values values(count);
  for (size_t i = 0; i < count; ++i) values[i] = value(rank, i);
  return values;
}
// Elements [first, first + kCount) of all ranks' inputs, added up.
Values sums(int ranks, size_t first = 0) {
  Values all(kCount, 0);
  for (int r = 0; r < ranks; ++r)
    for (size_t i = 0; i < kCount; ++i) all[i] += value(r, first + i);
  return all;
}
Values part(int rank, size_t first) {
  const Values all = input(rank, first + kCount);
  return {all.begin() + static_cast<ptrdiff_t>(first), all.end()};
}

// A collective by its call, and what this rank's output is then; empty: not looked at.
struct Case {
  const char* name;
  std::function<ncclResult_t(const int32_t* in, int32_t* out, const Rank&)> call;
  std::function<Values(const Rank&)> expected;
};

Values of_all(const Rank& rank, const std::function<Values(int)>& block) {
  Values all;
  for (int r = 0; r < rank.size; ++r) {
    const Values one = block(r);
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

std::vector<Case> cases() {
  const auto own_part = [](const Rank& r) { return static_cast<size_t>(r.me) * kCount; };
  return {
      {"AllReduce",
       [](auto in, auto out, const Rank& r) {
         return ncclAllReduce(in, out, kCount, ncclInt32, ncclSum, r.comm, r.gpu.stream());
       },
       [](const Rank& r) { return sums(r.size); }},
      {"Reduce",
       [](auto in, auto out, const Rank& r) {
         return ncclReduce(in, out, kCount, ncclInt32, ncclSum, 0, r.comm, r.gpu.stream());
       },
       [](const Rank& r) { return r.me == 0 ? sums(r.size) : Values(); }},
      {"Broadcast",
       [](auto in, auto out, const Rank& r) {
         return ncclBroadcast(in, out, kCount, ncclInt32, r.size - 1, r.comm, r.gpu.stream());
       },
       [](const Rank& r) { return part(r.size - 1, 0); }},
      {"AllGather",
       [](auto in, auto out, const Rank& r) {
         return ncclAllGather(in, out, kCount, ncclInt32, r.comm, r.gpu.stream());
       },
       [](const Rank& r) { return of_all(r, [](int from) { return part(from, 0); }); }},
      {"ReduceScatter",
       [](auto in, auto out, const Rank& r) {
         return ncclReduceScatter(in, out, kCount, ncclInt32, ncclSum, r.comm, r.gpu.stream());
       },
       [=](const Rank& r) { return sums(r.size, own_part(r)); }},
      {"AlltoAll",
       [](auto in, auto out, const Rank& r) {
         return ncclAlltoAll(in, out, kCount, ncclInt32, r.comm, r.gpu.stream());
       },
       [=](const Rank& r) { return of_all(r, [&](int from) { return part(from, own_part(r)); }); }},
      {"Gather",
       [](auto in, auto out, const Rank& r) {
         return ncclGather(in, out, kCount, ncclInt32, 0, r.comm, r.gpu.stream());
       },
       [](const Rank& r) {
         return r.me == 0 ? of_all(r, [](int from) { return part(from, 0); }) : Values();
       }},
      {"Scatter",
       [](auto in, auto out, const Rank& r) {
         return ncclScatter(in, out, kCount, ncclInt32, 0, r.comm, r.gpu.stream());
       },
       [=](const Rank& r) { return part(0, own_part(r)); }},
  };
}

class GpuRanks : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Gpu, GpuRanks, testing::Values(1, 2, 3));

// Inputs come and outputs go by the same stream, which nobody waits for in between.
TEST_P(GpuRanks, CollectivesKeepTheStreamsOrder) {
  on_ranks(GetParam(), [](const Rank& r) {
    const size_t whole = kCount * static_cast<size_t>(r.size);
    int32_t *in = r.gpu.allocate(whole), *out = r.gpu.allocate(whole);
    const Values own = input(r.me, whole);
    for (const Case& one : cases()) {
      r.gpu.put(in, own);
      ASSERT_EQ(one.call(in, out, r), ncclSuccess) << one.name << ncclGetLastError(nullptr);
      const Values expected = one.expected(r), got = r.gpu.get(out, whole);
      if (!expected.empty()) {
        EXPECT_TRUE(std::equal(expected.begin(), expected.end(), got.begin())) << one.name;
      }
    }
  });
}

// Each message is larger than links hold; streams of a group wait for each other.
TEST_P(GpuRanks, AGroupMaySendAndReceiveOnTwoStreams) {
  constexpr size_t kLarge = 300'000;
  on_ranks(GetParam(), [](const Rank& r) {
    int32_t *in = r.gpu.allocate(kLarge), *out = r.gpu.allocate(kLarge);
    const int next = (r.me + 1) % r.size, last = (r.me + r.size - 1) % r.size;
    const Values own = input(r.me, kLarge), later(kLarge, -1);
    r.gpu.put(in, own, 0);
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    EXPECT_EQ(ncclRecv(out, kLarge, ncclInt32, last, r.comm, r.gpu.stream(1)), ncclSuccess);
    EXPECT_EQ(ncclSend(in, kLarge, ncclInt32, next, r.comm, r.gpu.stream(0)), ncclSuccess);
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(nullptr);
    r.gpu.put(in, later, 0);  // behind the send
    EXPECT_EQ(r.gpu.get(out, kLarge, 1), input(last, kLarge));
  });
}

TEST_P(GpuRanks, HostMemoryIsReadWhenTheStreamHasComeSoFar) {
  constexpr size_t kLarge = 2'000'000;  // takes a while to copy
  on_ranks(GetParam(), [](const Rank& r) {
    int32_t* const there = r.gpu.allocate(kLarge);
    const Values own(kLarge, r.me + 1);
    Values here(kLarge, -1), out(kCount, -1);
    int32_t* const last = &here[kLarge - kCount];
    for (const bool in_group : {false, true}) {
      std::fill(here.begin(), here.end(), -1);
      r.gpu.put(there, own);
      r.gpu.copy(here.data(), there, kLarge);
      if (in_group) (void)ncclGroupStart();
      ASSERT_EQ(ncclAllReduce(last, out.data(), kCount, ncclInt32, ncclSum, r.comm, r.gpu.stream()),
                ncclSuccess);
      if (in_group) (void)ncclGroupEnd();
      EXPECT_EQ(out, Values(kCount, r.size * (r.size + 1) / 2));
    }
    EXPECT_EQ(ncclAllReduce(there, out.data(), kCount, ncclInt32, ncclSum, r.comm, r.gpu.stream()),
              ncclInvalidArgument);
    EXPECT_NE(std::string(ncclGetLastError(nullptr)).find("does not reach"), std::string::npos);
    ASSERT_EQ(ncclAllReduce(there, there, 0, ncclInt32, ncclSum, r.comm, r.gpu.stream()),
              ncclSuccess);
  });
}

// Scalars that are read at once, and when the call runs.
TEST_P(GpuRanks, PreMulSumTakesScalarsOfTheGpu) {
  on_ranks(GetParam(), [](const Rank& r) {
    int32_t *in = r.gpu.allocate(kCount), *out = r.gpu.allocate(kCount),
            *factor = r.gpu.allocate(1);
    const Values own = part(r.me, 0), two{2};
    int32_t three = 3;
    ncclRedOp_t by_two, by_three;
    ASSERT_EQ(ncclRedOpCreatePreMulSum(&by_two, factor, ncclInt32, ncclScalarDevice, r.comm),
              ncclSuccess);
    ASSERT_EQ(
        ncclRedOpCreatePreMulSum(&by_three, &three, ncclInt32, ncclScalarHostImmediate, r.comm),
        ncclSuccess);
    three = 0;
    r.gpu.put(factor, two);
    r.gpu.put(in, own);
    const Values expected = sums(r.size);
    for (const auto& [op, times] : {std::pair(by_two, 2), std::pair(by_three, 3)}) {
      ASSERT_EQ(ncclAllReduce(in, out, kCount, ncclInt32, op, r.comm, r.gpu.stream()), ncclSuccess);
      const Values got = r.gpu.get(out, kCount);
      for (size_t i = 0; i < kCount; ++i) ASSERT_EQ(got[i], times * expected[i]);
      EXPECT_EQ(ncclAllReduce(in, out, 0, ncclInt32, op, r.comm, r.gpu.stream()), ncclSuccess)
          << "nothing is multiplied: " << ncclGetLastError(nullptr);
    }
  });
}

TEST_P(GpuRanks, ChildrenHaveTheGpu) {
  on_ranks(GetParam(), [](const Rank& r) {
    ncclComm_t child = nullptr;
    ASSERT_EQ(ncclCommSplit(r.comm, 0, -r.me, &child, nullptr), ncclSuccess);
    uint64_t bytes = 0;
    EXPECT_EQ(ncclCommMemStats(child, ncclStatGpuMemTotal, &bytes), ncclSuccess);
    EXPECT_GT(bytes, 0u);
    int32_t *in = r.gpu.allocate(kCount), *out = r.gpu.allocate(kCount);
    const Values own = part(r.me, 0);
    r.gpu.put(in, own);
    ASSERT_EQ(ncclAllReduce(in, out, kCount, ncclInt32, ncclSum, child, r.gpu.stream()),
              ncclSuccess);
    EXPECT_EQ(r.gpu.get(out, kCount), sums(r.size));
    EXPECT_EQ(ncclCommDestroy(child), ncclSuccess);
  });
}

// Also where nobody has waited for the stream.
TEST_P(GpuRanks, FinalizeWaitsForWhatIsOnStreams) {
  on_ranks(GetParam(), [](const Rank& r) {
    int32_t *in = r.gpu.allocate(kCount), *out = r.gpu.allocate(kCount);
    const Values own = part(r.me, 0);
    r.gpu.put(in, own);
    ASSERT_EQ(ncclAllReduce(in, out, kCount, ncclInt32, ncclSum, r.comm, r.gpu.stream()),
              ncclSuccess);
    EXPECT_EQ(ncclCommFinalize(r.comm), ncclSuccess);
    EXPECT_EQ(r.gpu.get(out, kCount, 1), sums(r.size));  // a stream that waits for no other
  });
}

// The GPU of one that grows is its own, whatever is current where that is asked for.
TEST_P(GpuRanks, GrownOnesHaveTheGpu) {
  on_ranks(GetParam(), [](const Rank& r) {
    ncclUniqueId id;
    if (r.me == 0) {
      ASSERT_EQ(ncclCommGetUniqueId(r.comm, &id), ncclSuccess);
    }
    int32_t* const values = r.gpu.allocate(1);
    use_gpu(-1);
    std::thread newcomer;
    if (r.me == 0)
      newcomer = std::thread([size = r.size, id] {
        Gpu gpu(0);
        ncclComm_t comm = nullptr;
        ASSERT_EQ(ncclCommGrow(nullptr, size + 1, &id, size, &comm, nullptr), ncclSuccess);
        int32_t* const theirs = gpu.allocate(1);
        const Values one{1};
        gpu.put(theirs, one);
        EXPECT_EQ(ncclAllReduce(theirs, theirs, 1, ncclInt32, ncclSum, comm, gpu.stream()),
                  ncclSuccess);
        EXPECT_EQ(gpu.get(theirs, 1)[0], size + 1);
        EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
      });
    ncclComm_t grown = nullptr;
    ASSERT_EQ(ncclCommGrow(r.comm, r.size + 1, r.me == 0 ? &id : nullptr, -1, &grown, nullptr),
              ncclSuccess)
        << ncclGetLastError(nullptr);
    int device = -1;
    EXPECT_EQ(ncclCommCuDevice(grown, &device), ncclSuccess);
    EXPECT_EQ(device, 0);
    uint64_t bytes = 0;
    EXPECT_EQ(ncclCommMemStats(grown, ncclStatGpuMemTotal, &bytes), ncclSuccess);
    EXPECT_GT(bytes, 0u);
    const Values one{1};
    r.gpu.put(values, one);
    EXPECT_EQ(ncclAllReduce(values, values, 1, ncclInt32, ncclSum, grown, r.gpu.stream()),
              ncclSuccess);
    EXPECT_EQ(r.gpu.get(values, 1)[0], r.size + 1);
    if (newcomer.joinable()) newcomer.join();
    EXPECT_EQ(ncclCommDestroy(grown), ncclSuccess);
  });
}

TEST_P(GpuRanks, CommunicatorsThatDoNotBlock) {
  on_ranks(
      GetParam(),
      [](const Rank& r) {
        int32_t *in = r.gpu.allocate(kCount), *out = r.gpu.allocate(kCount);
        const Values own = part(r.me, 0);
        r.gpu.put(in, own);
        const ncclResult_t said =
            ncclAllReduce(in, out, kCount, ncclInt32, ncclSum, r.comm, r.gpu.stream());
        EXPECT_TRUE(said == ncclInProgress || said == ncclSuccess);
        EXPECT_EQ(settled(r.comm), ncclSuccess);
        (void)ncclCommFinalize(r.comm);
        EXPECT_EQ(settled(r.comm), ncclSuccess);
        EXPECT_EQ(r.gpu.get(out, kCount, 1), sums(r.size));  // a stream that waits for no other
      },
      not_blocking());
}

// Also in a group the call itself says so, and no thread stays to wait for its ranks.
TEST(Gpu, OneThatIsNotThereIsNoCommunicators) {
  const Gpu gpu(0);
  using Tasks = std::filesystem::directory_iterator;
  const auto threads = [] { return std::distance(Tasks("/proc/self/task"), Tasks()); };
  const int devices[] = {0, 99};
  ncclComm_t comms[2] = {};
  const auto before = threads();
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclCommInitAll(comms, 2, devices), ncclInvalidArgument);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
  EXPECT_EQ(comms[0], nullptr);
  for (int i = 0; i < 5000 && threads() > before; ++i) ::usleep(1000);
  EXPECT_EQ(threads(), before);
}

// As programs for several GPUs have it: each communicator has the device that it was made for.
TEST(Gpu, OneThreadHasACommunicatorOfEveryGpu) {
  if (*weft::cuda_device_count() < weft::test::kGpus) GTEST_SKIP() << "there is one GPU only";
  std::vector<std::unique_ptr<Gpu>> gpus;
  for (int i = 0; i < weft::test::kGpus; ++i) gpus.push_back(std::make_unique<Gpu>(i));
  const int devices[] = {1, 0};
  ncclComm_t comms[2] = {};
  ASSERT_EQ(ncclCommInitAll(comms, 2, devices), ncclSuccess) << ncclGetLastError(nullptr);
  std::vector<int32_t*> values;
  std::vector<Values> inputs{part(0, 0), part(1, 0)};
  for (size_t r = 0; r < 2; ++r) {
    int device = -1;
    EXPECT_EQ(ncclCommCuDevice(comms[r], &device), ncclSuccess);
    EXPECT_EQ(device, devices[r]);
    use_gpu(devices[r]);
    values.push_back(gpus[static_cast<size_t>(devices[r])]->allocate(kCount));
    gpus[static_cast<size_t>(devices[r])]->put(values[r], inputs[r]);
  }
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (size_t r = 0; r < 2; ++r)
    EXPECT_EQ(ncclAllReduce(values[r], values[r], kCount, ncclInt32, ncclSum, comms[r],
                            gpus[static_cast<size_t>(devices[r])]->stream()),
              ncclSuccess);
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(nullptr);
  for (size_t r = 0; r < 2; ++r)
    EXPECT_EQ(gpus[static_cast<size_t>(devices[r])]->get(values[r], kCount), sums(2));
  for (ncclComm_t comm : comms) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

TEST(Gpu, DevicesThatAreNotThereAreNamed) {
  const int count = *weft::cuda_device_count();
  const int devices[] = {0, count};
  ncclComm_t comms[2] = {};
  use_gpu(0);
  EXPECT_EQ(ncclCommInitAll(comms, 2, devices), ncclInvalidArgument);
  EXPECT_NE(std::string(ncclGetLastError(nullptr))
                .find(weft::concat("no GPU ", count, "; there are ", count)),
            std::string::npos);
  if (!use_gpu(-1)) return;
  // Where the program uses none they are numbers.
  EXPECT_EQ(ncclCommInitAll(comms, 2, devices), ncclSuccess);
  for (ncclComm_t comm : comms) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

// One rank that may not share its GPU is enough, and all hear of it.
TEST(Gpu, RanksThatMayNotShareOneAreToldWhichDo) {
  const auto codes_on = [](std::vector<int> gpus) {
    ncclUniqueId id;
    EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    std::vector<ncclResult_t> codes(gpus.size());
    weft::test::on_threads(static_cast<int>(gpus.size()), [&](int me) {
      const auto at = static_cast<size_t>(me);
      use_gpu(gpus[at]);
      ncclComm_t comm = nullptr;
      codes[at] = ncclCommInitRank(&comm, static_cast<int>(gpus.size()), id, me);
      const std::string why = codes[at] == ncclSuccess ? "" : ncclGetLastError(nullptr);
      EXPECT_EQ(codes[at] != ncclSuccess,
                why.find("ranks 0 and 1 have the same GPU") != std::string::npos)
          << why;
      EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
    });
    return codes;
  };
  ::setenv("NCCL_MULTI_RANK_GPU_ENABLE", "0", 1);  // NOLINT(concurrency-mt-unsafe): one thread
  EXPECT_EQ(codes_on({0, 0}), std::vector<ncclResult_t>(2, ncclInvalidUsage));
  if (*weft::cuda_device_count() > 1) {
    EXPECT_EQ(codes_on({0, 1}), std::vector<ncclResult_t>(2, ncclSuccess));
  }
  ::unsetenv("NCCL_MULTI_RANK_GPU_ENABLE");  // NOLINT(concurrency-mt-unsafe)
  EXPECT_EQ(codes_on({0, 0}), std::vector<ncclResult_t>(2, ncclSuccess));
}

// A peer that is there and never calls: what waits for it on the stream ends.
TEST(Gpu, AbortAndRevokeEndWhatIsOnStreams) {
  for (const bool revoke : {true, false}) {
    std::latch ended(1);
    on_ranks(2, [&](Rank& r) {
      if (r.me == 1) return ended.wait();
      int32_t* const values = r.gpu.allocate(kCount);
      EXPECT_EQ(ncclAllReduce(values, values, kCount, ncclInt32, ncclSum, r.comm, r.gpu.stream()),
                ncclSuccess);
      if (revoke)
        EXPECT_EQ(ncclCommRevoke(r.comm, NCCL_REVOKE_DEFAULT), ncclSuccess);
      else
        EXPECT_EQ(ncclCommAbort(std::exchange(r.comm, nullptr)), ncclSuccess);
      r.gpu.synchronize();
      ended.count_down();
    });
  }
}

// Returns when all ranks have come here.
void meet(const Rank& r) {
  int8_t on_host = 0;
  EXPECT_EQ(ncclAllReduce(&on_host, &on_host, 1, ncclInt8, ncclSum, r.comm, r.gpu.stream()),
            ncclSuccess);
}

// As in an exchange of varying sizes: who has nothing to receive may have no memory for it.
TEST_P(GpuRanks, EmptyTransfersMeetWhateverTheirPointers) {
  on_ranks(GetParam(), [](Rank& r) {
    int32_t* const values = r.gpu.allocate(kCount);
    int32_t* const other = nullptr;
    const int next = (r.me + 1) % r.size, before = (r.me + r.size - 1) % r.size;
    for (const bool send_null : {false, true}) {
      EXPECT_EQ(ncclGroupStart(), ncclSuccess);
      EXPECT_EQ(ncclSend(send_null ? other : values, 0, ncclInt32, next, r.comm, r.gpu.stream()),
                ncclSuccess);
      EXPECT_EQ(ncclRecv(send_null ? values : other, 0, ncclInt32, before, r.comm, r.gpu.stream()),
                ncclSuccess);
      EXPECT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(nullptr);
    }
    const Values own = part(r.me, 0);
    r.gpu.put(values, own);
    EXPECT_EQ(ncclAllReduce(values, values, kCount, ncclInt32, ncclSum, r.comm, r.gpu.stream()),
              ncclSuccess);
    EXPECT_EQ(r.gpu.get(values, kCount), sums(r.size));
  });
}

// A training step of a captured kind: a sum, and a group that goes around on both streams.
TEST_P(GpuRanks, GraphsRunAgainAndAgain) {
  on_ranks(GetParam(), [](Rank& r) {
    int32_t* const values = r.gpu.allocate(kCount);
    int32_t* const moved = r.gpu.allocate(kCount);
    const auto capture = [&] {
      EXPECT_EQ(ncclAllReduce(values, values, kCount, ncclInt32, ncclSum, r.comm, r.gpu.stream()),
                ncclSuccess);
      const int next = (r.me + 1) % r.size, before = (r.me + r.size - 1) % r.size;
      EXPECT_EQ(ncclGroupStart(), ncclSuccess);
      EXPECT_EQ(ncclSend(values, kCount, ncclInt32, next, r.comm, r.gpu.stream()), ncclSuccess);
      EXPECT_EQ(ncclRecv(moved, kCount, ncclInt32, before, r.comm, r.gpu.stream()), ncclSuccess);
      EXPECT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(nullptr);
      int32_t host = 1;  // cannot wait for the stream, and the capture goes on
      EXPECT_EQ(ncclAllReduce(&host, &host, 1, ncclInt32, ncclSum, r.comm, r.gpu.stream()),
                ncclInvalidArgument);
    };
    int runs = 0;
    Values expected = sums(r.size), fresh;
    r.gpu.run_graph(capture, [&] {
      if (runs == 0) meet(r);  // nobody launches a graph before all have theirs
      EXPECT_TRUE(runs == 0 || r.gpu.get(moved, kCount) == expected) << runs;
      if (runs == 3) return false;
      fresh = part(r.me, 0);
      for (int32_t& value : fresh) value += runs;
      for (size_t i = 0; i < kCount; ++i) expected[i] = sums(r.size)[i] + runs * r.size;
      r.gpu.put(values, fresh);
      ++runs;
      return true;
    });
  });
}

TEST(Memory, IsTheHostsWhereNoGpuIsWanted) {
  use_gpu(0);
  const auto gpu = weft::open_cuda_device(0);
  ASSERT_TRUE(gpu.ok());
  for (const bool wanted : {false, true}) {
    void* memory = nullptr;
    if (!wanted) ::setenv("WEFT_DEVICE", "none", 1);  // NOLINT(concurrency-mt-unsafe)
    EXPECT_EQ(ncclMemAlloc(&memory, 100), ncclSuccess);
    ::unsetenv("WEFT_DEVICE");  // NOLINT(concurrency-mt-unsafe)
    EXPECT_EQ(*(*gpu)->kind_of(memory), wanted ? weft::MemoryKind::device : weft::MemoryKind::host);
    EXPECT_EQ(ncclMemFree(memory), ncclSuccess);
  }
}

}  // namespace
