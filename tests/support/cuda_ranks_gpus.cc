#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <thread>

#include "engine/device/cuda.h"
#include "tests/support/ranks_gpus.h"
#include "tests/support/with_memory.h"

namespace weft::test {

struct RanksGpus::State {
  std::vector<std::shared_ptr<Gpu>> gpus;  // by rank
};

RanksGpus::RanksGpus(const std::vector<std::string>& host_of_rank)
    : state_(std::make_unique<State>()) {
  for (size_t r = 0; r < host_of_rank.size(); ++r)
    state_->gpus.push_back(std::make_shared<WithMemory>(open_cuda_device(0).take()));
}

RanksGpus::~RanksGpus() = default;

std::shared_ptr<Gpu> RanksGpus::of(Rank rank) const {
  return state_->gpus[static_cast<size_t>(rank)];
}

void hold(Gpu::Stream stream, const std::atomic<bool>& go) {
  const auto wait = [](void* until) {
    while (!*static_cast<const std::atomic<bool>*>(until)) std::this_thread::yield();
  };
  EXPECT_EQ(cudaLaunchHostFunc(static_cast<cudaStream_t>(stream), wait,
                               const_cast<std::atomic<bool>*>(&go)),
            cudaSuccess);
}

}  // namespace weft::test
