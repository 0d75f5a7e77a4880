// One link from the outside: the slots, what is under way in them, and what both ends see.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "transport/transport.h"

namespace weft::sim {

// A message from commit or send until its slot is free again.
struct Flight {
  size_t slot = 0;
  size_t bytes = 0;
  uint64_t tag = 0;
  const std::byte* memory = nullptr;  // of the sender's caller, where there is a ticket
  Ticket ticket = 0;                  // 0: the payload is in the slot
};

struct Post {
  Ticket ticket = 0;
  Bytes memory;
};

struct Channel {
  Rank from = -1;
  Rank to = -1;
  LinkId id = 0;
  std::optional<LinkShape> send_shape;  // once that end has opened
  std::optional<LinkShape> recv_shape;
  Status send_error;  // beside the loss of the peer
  Status recv_error;

  std::vector<std::byte> memory;   // all slots
  std::vector<size_t> free;        // slots of which the sender has the credit
  std::optional<size_t> reserved;  // one of `free`
  Ticket sends = 0;
  std::set<Ticket> reading;  // sends whose memory is not free yet
  int64_t last_arrival_ns = 0;
  // Of a sender that has closed or abandoned slots still arrive, but its caller's memory may be
  // gone: the first message from there and what follows are lost.
  bool sender_left = false;
  bool severed = false;

  std::deque<Flight> arrived;  // in slots, oldest first
  bool peeked = false;         // the receiver has seen arrived.front()
  std::deque<Post> posts;      // without a message yet
  Ticket posted = 0;
  std::map<Ticket, std::optional<RecvLink::Placed>> placed;  // every post not yet reported
  int64_t last_placed_ns = 0;

  Bytes slot(size_t index) {
    const size_t bytes = send_shape->slot_bytes;
    return Bytes(memory).subspan(index * bytes, bytes);
  }
};

}  // namespace weft::sim
