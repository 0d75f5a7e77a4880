#include "engine/executor/device_memory.h"

#include <algorithm>

#include "base/status.h"

namespace weft {
namespace {

// Gives out pieces one behind the other.
class Pieces {
 public:
  size_t add(size_t bytes) {
    const size_t begin = next_;
    next_ += (bytes + 255) / 256 * 256;
    return begin;
  }
  size_t bytes() const { return next_; }

 private:
  size_t next_ = 0;
};

}  // namespace

DeviceMemoryLayout::DeviceMemoryLayout(const DeviceShape& shape) : shape_(shape) {
  WEFT_CHECK(shape.ranks >= 1 && shape.slots >= 2 && shape.slot_bytes % 64 == 0);
  const auto ranks = static_cast<size_t>(shape.ranks);
  const size_t link_ends = (ranks - 1) * static_cast<size_t>(shape.links + 1);
  Pieces pieces;
  for (const bool group : {false, true})
    WEFT_CHECK(pieces.add(sizeof(device::State) + sizeof(uint32_t)) == state(group));
  positions_ = pieces.add(sizeof(uint64_t) * 2 * link_ends);
  told_ = pieces.add(sizeof(device::Told) * ranks);
  packets_ = pieces.add(shape.packet_bytes);
  cells_ = pieces.add(kCellBytes * ranks * static_cast<size_t>(shape.cells));
  begun_ = pieces.add(kCellBytes * ranks);
  entered_ = pieces.add(kCellBytes * ranks);
  heads_ = pieces.add(kCellBytes * link_ends);
  credits_ = pieces.add(kCellBytes * link_ends);
  slots_ = pieces.add(link_ends * shape.slots * shape.slot_bytes);
  window_ = pieces.add(shape.window_bytes);
  bytes_ = pieces.bytes();
}

RelayLayout::RelayLayout(const DeviceShape& shape, int peers)
    : peers_(peers),
      links_(shape.links + 1),
      slots_(shape.slots),
      link_bytes_(size_t{shape.slots} * shape.slot_bytes) {
  const size_t ends = static_cast<size_t>(peers) * static_cast<size_t>(links_);
  Pieces pieces;
  WEFT_CHECK(pieces.add(kWord * 2 * ends) == 0);
  carried_ = pieces.add(kWord * ends);
  marks_ = pieces.add(sizeof(device::Mark) * slots_ * ends);
  bytes_ = pieces.bytes();
}

device::Receive DeviceMap::receive_end(Rank peer, int link) const {
  device::Receive end{};
  end.position = at<uint64_t>(me, layout.received(me, peer, link));
  end.peer = peer;
  if (is_mapped(peer)) {
    end.slots = at<const std::byte>(me, layout.slots(me, peer, link));
    end.head = at<const uint64_t>(me, layout.head(me, peer, link));
    end.credit = at<uint64_t>(peer, layout.credit(peer, me, link));
    return end;
  }
  const auto number = static_cast<int>(std::ranges::find(relayed, peer) - relayed.begin());
  end.slots = at_slots(relay.received(number, link));
  end.head = at_relay<const uint64_t>(relay.head(number, link));
  end.credit = at_relay<uint64_t>(relay.credit_to_carry(number, link));
  return end;
}

device::Send DeviceMap::send_end(Rank peer, int link) const {
  device::Send end{};
  end.position = at<uint64_t>(me, layout.sent(me, peer, link));
  end.peer = peer;
  if (is_mapped(peer)) {
    end.slots = at<std::byte>(peer, layout.slots(peer, me, link));
    end.head = at<uint64_t>(peer, layout.head(peer, me, link));
    end.credit = at<const uint64_t>(me, layout.credit(me, peer, link));
    return end;
  }
  const auto number = static_cast<int>(std::ranges::find(relayed, peer) - relayed.begin());
  end.slots = at_slots(relay.sent(number, link));
  end.credit = at_relay<const uint64_t>(relay.credit(number, link));
  end.marks = at_relay<device::Mark>(relay.marks(number, link));
  return end;
}

}  // namespace weft
