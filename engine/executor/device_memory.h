// clang-format off
// What lies where in the device memory that a rank makes for its communicator and that its peers
// map. It begins as zeros, and has the same shape on all ranks. Every cell has one writer.
//
//   two States: of collectives, of groups    the rank itself
//   whether it has given up                  the rank itself
//   positions of link ends                   the rank itself
//   where a peer's Input and Output are      the peer
//   boxes of packets                         whoever the schedule says
//   signal cells by (poster, cell)           the poster
//   begun by peer: as many words as a cell   the peer
//   entered by peer                          the peer; where steps are launched by themselves
//   heads by (sender, link)                  the sender
//   credits by (receiver, link)              the receiver
//   slots by (sender, link)                  the sender
//   window                                   whoever the schedule says
//
// Links 0 .. links - 1 between two ranks serve collectives; one more serves groups of sends and
// receives, which run beside them.
// clang-format on
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/device_program.h"

namespace weft {

struct DeviceShape {
  int ranks = 1;
  int cells = 256;                  // per ordered pair of ranks
  int links = 32;                   // per ordered pair of ranks
  uint32_t slots = 4;               // of every link, >= 2
  uint32_t slot_bytes = 256 << 10;  // a multiple of 64
  size_t window_bytes = 16 << 20;
  size_t packet_bytes = 4 << 20;  // for boxes (kernels/device_program.h)
};

class DeviceMemoryLayout {
 public:
  explicit DeviceMemoryLayout(const DeviceShape& shape);

  const DeviceShape& shape() const { return shape_; }
  size_t bytes() const { return bytes_; }
  // Of one of the windows' parts that calls take in turn (kernels/device_program.h).
  size_t lease_bytes() const { return shape_.window_bytes / device::kLeases / 64 * 64; }

  // The same of the boxes.
  size_t packet_lease_bytes() const { return shape_.packet_bytes / device::kLeases / 64 * 64; }

  // Offsets. `owner` is the rank whose memory it is; the other one is its peer.
  size_t state(bool group) const { return group ? 256 : 0; }
  // Beside what every launch of a collective reads first.
  size_t failed() const { return state(false) + sizeof(device::State); }
  size_t cell(Rank poster, int cell) const {
    return cells_ + kCellBytes * (static_cast<size_t>(poster) * shape_.cells + cell);
  }
  size_t begun(Rank peer) const { return begun_ + kCellBytes * static_cast<size_t>(peer); }
  // Of a call, where steps are launched by themselves, which have no other use for it.
  size_t finished(Rank peer) const { return begun(peer); }
  size_t entered(Rank peer) const { return entered_ + kCellBytes * static_cast<size_t>(peer); }
  size_t head(Rank owner, Rank sender, int link) const {
    return heads_ + kCellBytes * index(owner, sender, link);
  }
  size_t credit(Rank owner, Rank receiver, int link) const {
    return credits_ + kCellBytes * index(owner, receiver, link);
  }
  size_t received(Rank owner, Rank sender, int link) const {
    return positions_ + sizeof(uint64_t) * 2 * index(owner, sender, link);
  }
  size_t sent(Rank owner, Rank receiver, int link) const {
    return received(owner, receiver, link) + sizeof(uint64_t);
  }
  size_t slots(Rank owner, Rank sender, int link) const {
    return slots_ + size_t{shape_.slots} * shape_.slot_bytes * index(owner, sender, link);
  }
  size_t told(Rank peer) const { return told_ + sizeof(device::Told) * static_cast<size_t>(peer); }
  size_t window() const { return window_; }
  size_t packets() const { return packets_; }
  // What kernels wait for lies there.
  size_t cells_begin() const { return cells_; }
  size_t cells_bytes() const { return slots_ - cells_; }

 private:
  static constexpr size_t kCellBytes = 32;  // what a GPU moves at least, so that writers of
                                            // neighbouring cells do not meet
  static_assert(device::kBegun * sizeof(uint64_t) <= kCellBytes);
  size_t index(Rank owner, Rank peer, int link) const {
    const auto before = static_cast<size_t>(peer < owner ? peer : peer - 1);
    return before * static_cast<size_t>(shape_.links + 1) + static_cast<size_t>(link);
  }

  DeviceShape shape_;
  size_t cells_ = 0, begun_ = 0, entered_ = 0, heads_ = 0, credits_ = 0, positions_ = 0, told_ = 0,
         packets_ = 0, slots_ = 0, window_ = 0, bytes_ = 0;
};

// What lies where in the memory through which a rank's links to peers go that a relay leads to:
// those whose memory is not mapped here. They count from 0. In host memory, which begins as zeros:
//
//   heads, credits by (peer, link)            the relay, for the peer
//   credits to carry by (peer, link)          the rank; the relay takes them
//   marks by (peer, link, slot)               the rank; the relay takes them
//
// In host memory or, where transports reach that, the device's:
//
//   slots from the peer by (peer, link)       the relay, or the peer's transport
//   slots to the peer by (peer, link)         the rank
class RelayLayout {
 public:
  RelayLayout() = default;
  RelayLayout(const DeviceShape& shape, int peers);

  size_t bytes() const { return bytes_; }
  size_t slots_bytes() const { return 2 * from_peer_bytes() * static_cast<size_t>(peers_); }
  // All that a peer writes to: slots of its links, one behind the other.
  size_t from_peer_bytes() const { return link_bytes_ * static_cast<size_t>(links_); }
  int peers() const { return peers_; }
  int links() const { return links_; }  // those of groups included

  size_t head(int peer, int link) const { return kWord * 2 * index(peer, link); }
  size_t credit(int peer, int link) const { return head(peer, link) + kWord; }
  size_t credit_to_carry(int peer, int link) const { return carried_ + kWord * index(peer, link); }
  size_t marks(int peer, int link) const {
    return marks_ + sizeof(device::Mark) * slots_ * index(peer, link);
  }
  // Of slots, in the memory that they have.
  size_t received(int peer, int link) const { return link_bytes_ * index(peer, link); }
  size_t sent(int peer, int link) const { return received(peers_ + peer, link); }
  // What kernels wait for lies there, from 0 on.
  size_t cells_bytes() const { return carried_; }

 private:
  static constexpr size_t kWord = sizeof(uint64_t);
  size_t index(int peer, int link) const {
    return static_cast<size_t>(peer) * static_cast<size_t>(links_) + static_cast<size_t>(link);
  }

  int peers_ = 0, links_ = 0;
  size_t slots_ = 0, link_bytes_ = 0;
  size_t carried_ = 0, marks_ = 0, bytes_ = 0;
};

// The memory of all ranks, as one of them sees it.
struct DeviceMap {
  Rank me = 0;
  DeviceMemoryLayout layout;
  std::vector<std::byte*> memory;  // by rank, as mapped here; null where a relay leads there
  bool shares_buffers = false;     // callers' Inputs and Outputs are, at the same addresses
  RelayLayout relay = {};
  std::byte* relay_memory = nullptr;  // null: no relay leads to any peer
  std::byte* relay_slots = nullptr;   // likewise
  std::vector<Rank> relayed = {};     // in their order; then relay's peers

  template <class T>
  T* at(Rank rank, size_t offset) const {
    return reinterpret_cast<T*>(memory[static_cast<size_t>(rank)] + offset);
  }
  template <class T>
  T* at_relay(size_t offset) const {
    return reinterpret_cast<T*>(relay_memory + offset);
  }
  std::byte* at_slots(size_t offset) const { return relay_slots + offset; }
  bool is_mapped(Rank rank) const { return memory[static_cast<size_t>(rank)] != nullptr; }
  // This rank's ends of the links (peer, me, link) and (me, peer, link).
  device::Receive receive_end(Rank peer, int link) const;
  device::Send send_end(Rank peer, int link) const;
};

}  // namespace weft
