// The life of a message: reserved or sent, under way, arrived in a slot or placed, released.
#include <algorithm>
#include <cstring>

#include "transport/shape.h"
#include "transport/sim/state.h"

namespace weft::sim {
namespace {

constexpr auto kGarbage = std::byte{0xdb};
constexpr size_t kPostsMax = 64;

Status abandoned_error() {
  return Status(Code::aborted,
                "The link was abandoned with a transfer from or to memory under way.");
}

}  // namespace

Channel& State::open(Rank from, Rank to, LinkId id, LinkShape shape, bool sends) {
  const auto held = lock();
  Channel& channel = channels_[{from, to, id}];
  channel.from = from;
  channel.to = to;
  channel.id = id;
  std::optional<LinkShape>& mine = sends ? channel.send_shape : channel.recv_shape;
  Status& error = sends ? channel.send_error : channel.recv_error;
  if (mine && *mine != shape && error.ok()) error = shape_changed(id, *mine, shape);
  if (mine) return channel;
  mine = shape;
  if (channel.send_shape && channel.recv_shape)
    later(from, to, soon(from, to), [this, &channel] { connect(channel); });
  return channel;
}

// Both ends hear of each other's shape.
void State::connect(Channel& channel) {
  if (at(channel.from).cut[index(channel.to)]) return;
  const LinkShape shape = *channel.send_shape;
  if (shape == *channel.recv_shape) {
    channel.memory.assign(size_t{shape.slots} * shape.slot_bytes, kGarbage);
    for (size_t slot = 0; slot < shape.slots; ++slot) channel.free.push_back(slot);
  } else {
    channel.send_error = channel.recv_error =
        shapes_differ(channel.id, channel.from, shape, channel.to, *channel.recv_shape);
  }
  ring_locked(channel.from);
  ring_locked(channel.to);
}

Status State::send_status(Channel& channel) {
  const auto held = lock();
  return channel.send_error.ok() ? at(channel.from).lost[index(channel.to)] : channel.send_error;
}

Status State::recv_status(Channel& channel) {
  const auto held = lock();
  return channel.recv_error.ok() ? at(channel.to).lost[index(channel.from)] : channel.recv_error;
}

// Whether the end of the link at rank `end` may not be used any more.
bool State::dead(const Channel& channel, Rank end) {
  const bool sends = end == channel.from;
  const Rank peer = sends ? channel.to : channel.from;
  return !(sends ? channel.send_error : channel.recv_error).ok() || !at(end).lost[index(peer)].ok();
}

void State::abandon(Rank rank) {
  const auto held = lock();
  at(rank).withdrawn = true;
  for (auto& [key, channel] : channels_) {
    if (channel.from == rank) abandon_sends(channel);
    if (channel.to == rank) abandon_posts(channel);
  }
}

void State::abandon_sends(Channel& channel) {
  if (channel.reading.empty()) return;
  channel.reading.clear();
  channel.sender_left = true;
  if (channel.send_error.ok()) channel.send_error = abandoned_error();
}

// What has arrived and was to be placed is lost with the link: place().
void State::abandon_posts(Channel& channel) {
  const bool waiting = std::ranges::any_of(
      channel.placed, [](const auto& post) { return !post.second.has_value(); });
  if (!waiting) return;
  channel.posts.clear();
  if (channel.recv_error.ok()) channel.recv_error = abandoned_error();
}

Bytes State::reserve(Channel& channel) {
  const auto held = lock();
  if (channel.free.empty() || dead(channel, channel.from)) return {};
  if (!channel.reserved) channel.reserved = channel.free[timeline_.random(channel.free.size())];
  return channel.slot(*channel.reserved);
}

void State::commit(Channel& channel, size_t bytes, uint64_t tag) {
  const auto held = lock();
  WEFT_CHECK(channel.reserved && bytes <= channel.send_shape->slot_bytes);
  const size_t slot = *channel.reserved;
  channel.reserved.reset();
  std::erase(channel.free, slot);
  dispatch(channel, Flight{slot, bytes, tag, nullptr, 0});
}

// A free slot, the reserved one last.
size_t State::take_slot(Channel& channel) {
  size_t slot = channel.free[timeline_.random(channel.free.size())];
  if (slot == channel.reserved && channel.free.size() > 1)
    slot = channel.free[0] == slot ? channel.free[1] : channel.free[0];
  if (slot == channel.reserved) channel.reserved.reset();
  std::erase(channel.free, slot);
  return slot;
}

std::optional<Ticket> State::send(Channel& channel, ConstBytes memory, uint64_t tag) {
  const auto held = lock();
  WEFT_CHECK(options_.traits.send_from_memory && memory.size() <= channel.send_shape->slot_bytes);
  if (channel.free.empty() || dead(channel, channel.from)) return std::nullopt;
  const Ticket ticket = ++channel.sends;
  channel.reading.insert(ticket);
  dispatch(channel, Flight{take_slot(channel), memory.size(), tag, memory.data(), ticket});
  return ticket;
}

bool State::sent(Channel& channel, Ticket ticket) {
  const auto held = lock();
  WEFT_CHECK(ticket >= 1 && ticket <= channel.sends);
  return !channel.reading.contains(ticket) || !at(channel.from).lost[index(channel.to)].ok();
}

void State::dispatch(Channel& channel, const Flight& flight) {
  const int slowness = std::max(at(channel.from).slowness, at(channel.to).slowness);
  const int64_t due_ns = timeline_.now() + timeline_.random_message_ns() * slowness;
  channel.last_arrival_ns = std::max(channel.last_arrival_ns, due_ns);
  later(channel.from, channel.to, channel.last_arrival_ns,
        [this, &channel, flight] { arrive(channel, flight); });
}

void State::arrive(Channel& channel, Flight flight) {
  if (at(channel.to).cut[index(channel.from)] || at(channel.to).left) return;
  if (channel.sender_left && flight.ticket) channel.severed = true;
  if (channel.severed) return;
  ++arrivals_;
  if (flight.ticket) {
    std::copy_n(flight.memory, flight.bytes, channel.slot(flight.slot).data());
    later(channel.from, channel.to, soon(channel.from, channel.to),
          [this, &channel, ticket = flight.ticket] {
            channel.reading.erase(ticket);
            ring_locked(channel.from);
          });
  }
  if (channel.posts.empty()) {
    channel.arrived.push_back(flight);
    return ring_locked(channel.to);
  }
  const Post post = channel.posts.front();
  channel.posts.pop_front();
  channel.last_placed_ns = std::max(channel.last_placed_ns, soon(channel.from, channel.to));
  later(channel.from, channel.to, channel.last_placed_ns,
        [this, &channel, post, flight] { place(channel, post, flight); });
}

void State::place(Channel& channel, const Post& post, const Flight& flight) {
  if (at(channel.to).left || dead(channel, channel.to)) return;
  if (flight.bytes > post.memory.size()) {
    channel.recv_error = Status(
        Code::mismatch,
        "A message of " + std::to_string(flight.bytes) + " bytes came from rank " +
            std::to_string(channel.from) + ", but the memory posted for it holds " +
            std::to_string(post.memory.size()) + "; post at least as much as the sender sends.",
        channel.from);
  } else {
    std::copy_n(channel.slot(flight.slot).data(), flight.bytes, post.memory.data());
    channel.placed[post.ticket] = RecvLink::Placed{flight.bytes, flight.tag};
    free_slot(channel, flight.slot);
  }
  ring_locked(channel.to);
}

// The receiver is done with the slot; the credit goes back to the sender.
void State::free_slot(Channel& channel, size_t slot) {
  std::ranges::fill(channel.slot(slot), kGarbage);
  later(channel.from, channel.to, soon(channel.from, channel.to), [this, &channel, slot] {
    if (at(channel.from).cut[index(channel.to)]) return;
    channel.free.push_back(slot);
    ring_locked(channel.from);
  });
}

std::optional<Message> State::peek(Channel& channel) {
  const auto held = lock();
  if (channel.arrived.empty() || !channel.recv_error.ok()) return std::nullopt;
  channel.peeked = true;
  const Flight& flight = channel.arrived.front();
  return Message{channel.slot(flight.slot).first(flight.bytes), flight.tag};
}

void State::release(Channel& channel) {
  const auto held = lock();
  WEFT_CHECK(channel.peeked);
  channel.peeked = false;
  free_slot(channel, channel.arrived.front().slot);
  channel.arrived.pop_front();
}

std::optional<Ticket> State::post(Channel& channel, Bytes memory) {
  const auto held = lock();
  WEFT_CHECK(options_.traits.recv_into_memory);
  const size_t unseen = channel.arrived.size() - (channel.peeked ? 1 : 0);
  if (unseen > 0 || channel.placed.size() >= kPostsMax || dead(channel, channel.to))
    return std::nullopt;
  std::ranges::fill(memory, kGarbage);
  const Ticket ticket = ++channel.posted;
  channel.placed[ticket] = std::nullopt;
  channel.posts.push_back(Post{ticket, memory});
  return ticket;
}

std::optional<RecvLink::Placed> State::placed(Channel& channel, Ticket ticket) {
  const auto held = lock();
  const auto it = channel.placed.find(ticket);
  WEFT_CHECK(it != channel.placed.end());
  if (!it->second) return std::nullopt;
  const RecvLink::Placed placed = *it->second;
  channel.placed.erase(it);
  return placed;
}

}  // namespace weft::sim
