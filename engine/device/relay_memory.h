// The memory through which a relay carries a rank's links (RelayLayout): cells in host memory,
// slots there or in the device's. Made by steps; goes with this, after the transports that reach
// it.
#pragma once

#include <span>
#include <vector>

#include "engine/device/gpu.h"
#include "engine/device/leavings.h"
#include "engine/executor/device_memory.h"
#include "engine/media.h"

namespace weft {

class RelayMemory {
 public:
  explicit RelayMemory(Gpu& device) : device_(device) {}
  ~RelayMemory();
  RelayMemory(const RelayMemory&) = delete;

  Status make_cells(const RelayLayout& layout);
  // One of these two. On the device, all transports to `peers` are told of it; else nothing is left
  // of it, and the error says why.
  Status make_slots_on_host(const RelayLayout& layout);
  Status make_slots_on_device(const RelayLayout& layout, const Media& media,
                              std::span<const Rank> peers);
  // Slots on the device are given up for others. REQUIRES: no link uses them.
  void leave_device();
  // All of it goes when those do. REQUIRES: likewise.
  void leave(Leavings& leavings);

  std::byte* cells() const { return cells_.data(); }
  std::byte* slots() const { return slots_.data(); }
  size_t device_bytes() const { return on_device_.size(); }

 private:
  Status tell(Transport& transport, int dma_buf);

  Gpu& device_;
  Bytes cells_{}, on_host_{}, on_device_{};  // as they were made
  Bytes slots_{};
  std::vector<Transport*> told_;
};

}  // namespace weft
