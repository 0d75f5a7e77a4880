#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <thread>

#include "engine/device/cuda.h"
#include "tests/support/forwarding_gpu.h"
#include "tests/support/ranks_gpus.h"

namespace weft::test {
namespace {

// Pinned memory of the host passes for the GPU's, so that tests read and write it; kernels reach it
// by the same address. It is got at once and given back at the end, because CUDA waits for kernels
// then, which may be waiting for this very rank.
class WithMemory final : public ForwardingGpu {
 public:
  explicit WithMemory(std::shared_ptr<Gpu> gpu)
      : ForwardingGpu(std::move(gpu)), memory_(allocate_host(kBytes).take()) {}
  ~WithMemory() override { release_host(memory_); }

  MemoryKind kind_of(const void* memory) const override {
    const auto* const at = static_cast<const std::byte*>(memory);
    const bool ours = at >= memory_.data() && at < memory_.data() + memory_.size();
    return ours ? MemoryKind::device : ForwardingGpu::kind_of(memory);
  }
  std::unique_ptr<std::pmr::memory_resource> memory() {
    return std::make_unique<std::pmr::monotonic_buffer_resource>(memory_.data(), memory_.size(),
                                                                 std::pmr::null_memory_resource());
  }

 private:
  static constexpr size_t kBytes = 64 << 20;
  const Bytes memory_;
};

}  // namespace

struct RanksGpus::State {
  std::vector<std::shared_ptr<WithMemory>> gpus;  // by rank
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

std::unique_ptr<std::pmr::memory_resource> memory_of(Gpu& gpu) {
  return static_cast<WithMemory&>(gpu).memory();
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
