#include "engine/executor/device_memory.h"

#include "base/status.h"

namespace weft {

DeviceMemoryLayout::DeviceMemoryLayout(const DeviceShape& shape) : shape_(shape) {
  WEFT_CHECK(shape.ranks >= 1 && shape.slots >= 2 && shape.slot_bytes % 64 == 0);
  const auto ranks = static_cast<size_t>(shape.ranks);
  const size_t link_ends = (ranks - 1) * static_cast<size_t>(shape.links + 1);
  size_t next = 0;
  const auto add = [&next](size_t bytes) {
    const size_t begin = next;
    next += (bytes + 255) / 256 * 256;
    return begin;
  };
  for (const bool group : {false, true}) WEFT_CHECK(add(sizeof(device::State)) == state(group));
  positions_ = add(sizeof(uint64_t) * 2 * link_ends);
  cells_ = add(kCellBytes * ranks * static_cast<size_t>(shape.cells));
  finished_ = add(kCellBytes * ranks);
  entered_ = add(kCellBytes * ranks);
  heads_ = add(kCellBytes * link_ends);
  credits_ = add(kCellBytes * link_ends);
  slots_ = add(link_ends * shape.slots * shape.slot_bytes);
  window_ = add(shape.window_bytes);
  bytes_ = next;
}

}  // namespace weft
