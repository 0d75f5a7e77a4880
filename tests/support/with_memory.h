// A rank's GPU in tests that read and write, on the host, what they give to calls on its memory.
#pragma once

#include <cstddef>
#include <memory>
#include <memory_resource>
#include <utility>

#include "tests/support/forwarding_gpu.h"

namespace weft::test {

// Pinned memory of the host passes for the GPU's; kernels reach it by the same address. It is got
// at once and given back at the end, because GPUs wait for kernels then, which may be waiting for
// this very rank.
class WithMemory final : public ForwardingGpu {
 public:
  explicit WithMemory(std::shared_ptr<Gpu> gpu)
      : ForwardingGpu(std::move(gpu)), memory_(allocate_host(kBytes).take()) {}
  ~WithMemory() override { release_host(memory_); }

  Result<MemoryKind> kind_of(const void* memory) const override {
    const auto* const at = static_cast<const std::byte*>(memory);
    const bool ours = at >= memory_.data() && at < memory_.data() + memory_.size();
    if (ours) return MemoryKind::device;
    return ForwardingGpu::kind_of(memory);
  }
  // Anew from its beginning.
  std::unique_ptr<std::pmr::memory_resource> memory() {
    return std::make_unique<std::pmr::monotonic_buffer_resource>(memory_.data(), memory_.size(),
                                                                 std::pmr::null_memory_resource());
  }

 private:
  static constexpr size_t kBytes = 64 << 20;
  const Bytes memory_;
};

}  // namespace weft::test
