#include "engine/device/relay_memory.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

namespace weft {
namespace {

Status make(Result<Bytes> made, Bytes& memory) {
  if (made.ok()) memory = *made;
  return made.status();
}

}  // namespace

RelayMemory::~RelayMemory() {
  for (const Bytes memory : {cells_, on_host_})
    if (!memory.empty()) device_.release_host(memory);
  if (!on_device_.empty()) device_.release(on_device_);
}

Status RelayMemory::make_cells(const RelayLayout& layout) {
  return make(device_.allocate_host(layout.bytes()), cells_);
}

Status RelayMemory::make_slots_on_host(const RelayLayout& layout) {
  WEFT_TRY(make(device_.allocate_host(layout.slots_bytes()), on_host_));
  slots_ = on_host_;
  return {};
}

// Devices reach whole pages of the host's.
Status RelayMemory::make_slots_on_device(const RelayLayout& layout, const Media& media,
                                         std::span<const Rank> peers) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t bytes = (layout.slots_bytes() + page - 1) / page * page;
  WEFT_TRY(make(device_.allocate(bytes + page - 1, Gpu::Content::any), on_device_));
  const size_t before = -reinterpret_cast<uintptr_t>(on_device_.data()) % page;
  slots_ = on_device_.subspan(before, bytes);
  const Result<Fd> buffer = device_.dma_buf(slots_);
  Status status = buffer.status();
  for (const Rank peer : peers)
    if (status.ok()) status = tell(*media.route(peer), buffer->get());
  if (!status.ok()) leave_device();
  return status;
}

Status RelayMemory::tell(Transport& transport, int dma_buf) {
  if (std::ranges::find(told_, &transport) != told_.end()) return {};
  WEFT_TRY(transport.register_device(slots_, dma_buf));
  told_.push_back(&transport);
  return {};
}

void RelayMemory::leave(Leavings& leavings) {
  leavings.add_host(std::exchange(cells_, {}));
  leavings.add_host(std::exchange(on_host_, {}));
  leavings.add(std::exchange(on_device_, {}));
}

void RelayMemory::leave_device() {
  for (Transport* const transport : told_) transport->unregister_device(slots_);
  told_.clear();
  if (!on_device_.empty()) device_.release(on_device_);
  slots_ = on_device_ = {};
}

}  // namespace weft
