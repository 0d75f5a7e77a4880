// What the messages of a link over TCP weigh, of what may be under way.
//
// Slots are large, and few, so that little lies in sockets, and in caches, at once. Short messages
// take little room wherever they are; but where they go one way only (down a tree, round a ring)
// every second one would bring back a frame, and a system call on either side, to say that two of
// four slots are free. So several of them count as one slot.
#pragma once

#include <cstddef>
#include <cstdint>

#include "transport/transport.h"

namespace weft::tcp {

class Credit {
 public:
  static constexpr uint32_t kSlot = 8;  // weight of a message that may fill a slot
  static constexpr size_t kShortBytes = 4096;
  static constexpr size_t kLargeSlot = 64 << 10;  // from here on short messages weigh less

  explicit Credit(LinkShape shape)
      : slots_(shape.slots), short_bytes_(shape.slot_bytes >= kLargeSlot ? kShortBytes : 0) {}

  uint32_t all() const { return slots_ * kSlot; }
  // Messages that may be under way at most.
  size_t places() const { return short_bytes_ > 0 ? all() : slots_; }
  bool is_short(size_t bytes) const { return short_bytes_ > 0 && bytes <= short_bytes_; }
  uint8_t weight(size_t bytes) const { return is_short(bytes) ? 1 : kSlot; }
  // Of the memory for a message that has come.
  size_t slot_bytes(uint8_t weight, LinkShape shape) const {
    return weight < kSlot ? short_bytes_ : shape.slot_bytes;
  }

 private:
  uint32_t slots_;
  size_t short_bytes_;  // 0: all messages weigh the same
};

}  // namespace weft::tcp
