// Ranks that share a GPU, and what each has of it. They are threads of a test; where this process
// is one of those that gpu_processes.py starts, it is one rank of every test itself.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/env.h"
#include "engine/device/cuda.h"
#include "engine/device/queues.h"
#include "nccl/nccl.h"
#include "tests/nccl/threads.h"
#include "tests/support/emulated_cuda.h"

namespace weft::test {

using Values = std::vector<int32_t>;

// What a program has of its GPU: streams, and memory by ncclMemAlloc that it reaches by copies on
// streams only. To get and give back memory CUDA may wait for all kernels, also for those that wait
// for calls yet to be made: so all of it is got at once. No peer's kernels may be waiting then, nor
// where this goes. Copies are from and to pinned memory: one to other memory waits inside CUDA,
// where no other thread of the process can launch what it waits for.
class Gpu {
 public:
  explicit Gpu(int ordinal) : device_(open_cuda_device(ordinal).take()) {
    use_gpu(ordinal);
    for (void*& stream : streams_) stream = device_->make_stream().take();
    EXPECT_EQ(ncclMemAlloc(&memory_, kMemory * sizeof(int32_t)), ncclSuccess);
    pinned_ = device_->allocate_host(kPinned * sizeof(int32_t)).take();
  }
  ~Gpu() {
    synchronize();
    device_->release_host(pinned_);
    for (void* stream : streams_) device_->destroy_stream(stream);
    EXPECT_EQ(ncclMemFree(memory_), ncclSuccess);
  }
  Gpu(const Gpu&) = delete;

  cudaStream_t stream(size_t i = 0) const { return static_cast<cudaStream_t>(streams_[i]); }
  int32_t* allocate(size_t count) {
    const size_t first = std::exchange(given_, given_ + (count + 63) / 64 * 64);
    EXPECT_LE(given_, kMemory);
    return static_cast<int32_t*>(memory_) + first;
  }
  void put(int32_t* to, const Values& values, size_t stream = 0) {
    int32_t* const staged = pinned(values.size());
    std::copy(values.begin(), values.end(), staged);
    copy(to, staged, values.size(), stream);
  }
  void copy(void* to, const void* from, size_t count, size_t stream = 0) {
    EXPECT_TRUE(device_->copy(to, from, count * sizeof(int32_t), streams_[stream]).ok());
  }
  Values get(const int32_t* from, size_t count, size_t stream = 0) {
    int32_t* const values = pinned(count);
    copy(values, from, count, stream);
    synchronize();
    return Values(values, values + count);
  }
  void synchronize() {
    for (void* stream : streams_) EXPECT_TRUE(device_->synchronize(stream).ok());
    pinned_taken_ = 0;
  }

  // What the first stream is given in between, as often as is asked for.
  void run_graph(const std::function<void()>& capture, const std::function<bool()>& again) {
    ASSERT_TRUE(device_->begin_capture(streams_[0]).ok());
    capture();
    const auto graph = device_->end_capture(streams_[0]);
    ASSERT_TRUE(graph.ok()) << graph.status().to_string();
    while (again()) {
      EXPECT_TRUE(device_->launch_graph(*graph, streams_[0]).ok());
      synchronize();
    }
    device_->destroy_graph(*graph);
  }

 private:
  static constexpr size_t kMemory = 3'000'000, kPinned = 5'000'000;  // elements

  // So many elements, until what streams were given has ended.
  int32_t* pinned(size_t count) {
    const size_t first = std::exchange(pinned_taken_, pinned_taken_ + count);
    EXPECT_LE(pinned_taken_, kPinned);
    return reinterpret_cast<int32_t*>(pinned_.data()) + first;
  }

  std::shared_ptr<weft::Gpu> device_;
  void* streams_[2] = {};
  void* memory_ = nullptr;
  size_t given_ = 0;
  Bytes pinned_;
  size_t pinned_taken_ = 0;
};

// At the end of a scope, however it ends.
struct Meeting {
  std::latch& all;
  ~Meeting() { all.arrive_and_wait(); }
};

struct Rank {
  int me, size;
  ncclComm_t comm;
  Gpu& gpu;
};

// One rank, from its communicator's making to its end.
inline void be_rank(int me, int ranks, const ncclUniqueId& id, Gpu& gpu, ncclConfig_t config,
                    const std::function<void(Rank&)>& body) {
  ncclComm_t comm = nullptr;
  const ncclResult_t made = ncclCommInitRankConfig(&comm, ranks, id, me, &config);
  ASSERT_TRUE(made == ncclSuccess || made == ncclInProgress) << ncclGetLastError(nullptr);
  ASSERT_EQ(settled(comm), ncclSuccess);
  Rank rank{me, ranks, comm, gpu};
  body(rank);
  gpu.synchronize();
  EXPECT_EQ(ncclCommDestroy(rank.comm), ncclSuccess);
}

// The id that rank 0 leaves in that file.
inline ncclUniqueId id_by_file(const std::string& path, int me) {
  ncclUniqueId id{};
  if (me == 0) {
    EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    std::ofstream(path + ".new").write(id.internal, sizeof id);
    std::filesystem::rename(path + ".new", path);
    return id;
  }
  for (int i = 0; i < 30000 && !std::filesystem::exists(path); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::ifstream(path).read(id.internal, sizeof id);
  return id;
}

// Every rank, on one GPU that they share.
inline void on_ranks(int ranks, const std::function<void(Rank&)>& body,
                     ncclConfig_t config = NCCL_CONFIG_INITIALIZER) {
  ask_for_device_queues();
  const Environment environment = Environment::of_process();
  if (const auto me = environment.get_int("WEFT_TEST_RANK")) {
    static int calls = 0;  // the same in all processes
    const std::string path = *environment.get("WEFT_TEST_FOLDER") + "/" + std::to_string(calls++);
    if (*me >= ranks) return;
    const ncclUniqueId id = id_by_file(path, static_cast<int>(*me));
    Gpu gpu(0);
    return be_rank(static_cast<int>(*me), ranks, id, gpu, config, body);
  }
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  std::latch all(ranks);
  on_threads(ranks, [&](int me) {
    Gpu gpu(0);
    const Meeting before_memory_goes{all};
    be_rank(me, ranks, id, gpu, config, body);
  });
}

}  // namespace weft::test
