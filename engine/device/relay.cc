#include "engine/device/relay.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <set>

#include "base/text.h"

namespace weft {
namespace {

constexpr LinkId kMessages = 0, kCredits = 1;  // of the transport
constexpr uint32_t kMessagesUnderWay = 8;      // between two ranks

// What a message of the transport's is: message of a link, or so many credits. What the cell is to
// be, a count with a mark below, of which the highest bits are left out.
struct Tag {
  static constexpr int kCellBits = 56, kMostLinks = 1 << (64 - kCellBits);
  int link = 0;
  uint64_t cell = 0;

  uint64_t value() const {
    return static_cast<uint64_t>(link) << kCellBits | (cell & ((uint64_t{1} << kCellBits) - 1));
  }
  static Tag of(uint64_t value) {
    return {static_cast<int>(value >> kCellBits), value & ((uint64_t{1} << kCellBits) - 1)};
  }
};

// All credits that a rank can have to give while its peer sleeps, and takes none: one for each slot
// of each link, and what is granted anew with a call. So they never wait for the peer.
LinkShape credits_shape(const DeviceMap& map) {
  const auto links = static_cast<uint32_t>(map.relay.links());
  return {links * (map.layout.shape().slots + 2), 64};
}

// Data of the host's passes through the slots of the transport's links, which are few; else these
// carry tags only, and one of them is there for each slot of the device's.
LinkShape messages_shape(const DeviceMap& map, bool direct) {
  const DeviceShape& shape = map.layout.shape();
  if (!direct) return {kMessagesUnderWay, shape.slot_bytes};
  return {static_cast<uint32_t>(map.relay.links()) * shape.slots, 64};
}

std::atomic_ref<uint64_t> word(uint64_t* at) { return std::atomic_ref<uint64_t>(*at); }

}  // namespace

struct DeviceRelay::Peer {
  Rank rank;
  int number;  // among those that this leads to
  SendLink* out;
  RecvLink* in;
  SendLink* credits_out;
  RecvLink* credits_in;
  std::vector<uint64_t> carried;  // by link: the number of the last message
  std::deque<Ticket> tickets{};   // of messages that go from where kernels put them
  Status wrong{};                 // what it sent that cannot be
  Status lost{};                  // why nothing more goes there
};

DeviceRelay::DeviceRelay(const DeviceMap& map, std::unique_ptr<Media> media, Gpu* direct)
    : map_(map), media_(std::move(media)), direct_(direct) {
  WEFT_CHECK(map.relay.links() <= Tag::kMostLinks);
  const LinkShape shape = messages_shape(map, direct != nullptr);
  const std::vector<uint64_t> none(static_cast<size_t>(map.relay.links()), 0);
  for (const Rank rank : map.relayed) {
    Transport& route = *media_->route(rank);
    peers_.push_back({rank, static_cast<int>(peers_.size()),
                      &route.open_send(rank, kMessages, shape),
                      &route.open_recv(rank, kMessages, shape),
                      &route.open_send(rank, kCredits, credits_shape(map)),
                      &route.open_recv(rank, kCredits, credits_shape(map)), none});
    const Peer& peer = peers_.back();
    if (direct_)
      peer.in->lend(
          {map_.at_slots(map.relay.received(peer.number, 0)), map.relay.from_peer_bytes()});
  }
}

DeviceRelay::~DeviceRelay() = default;

std::string DeviceRelay::transports() const {
  std::set<std::string_view> names;
  for (const Rank peer : map_.relayed) names.insert(media_->route(peer)->name());
  std::string text;
  for (const std::string_view name : names) text += concat(text.empty() ? "" : "+", name);
  return text;
}

bool DeviceRelay::poll() {
  const std::lock_guard lock(mutex_);
  bool moved = false;
  for (Peer& peer : peers_) {
    moved |= receive(peer);
    moved |= send(peer);
  }
  if (!moved) media_->poll();
  return moved;
}

// -- what comes -----------------------------------------------------------------------------------

// Also what a peer has sent that is gone since: its part may have been all that it had to do.
bool DeviceRelay::receive(Peer& peer) {
  bool moved = false;
  for (RecvLink* const in : {peer.in, peer.credits_in}) {
    while (peer.wrong.ok()) {
      const Message* const message = in->peek();
      if (!message) break;
      peer.wrong = take(peer, *message, in == peer.credits_in);
      in->release();
      moved = true;
    }
    if (peer.lost.ok()) peer.lost = peer.wrong.ok() ? in->status() : peer.wrong;
  }
  return moved;
}

Status DeviceRelay::take(const Peer& peer, const Message& message, bool credit) {
  const RelayLayout& at = map_.relay;
  const Tag tag = Tag::of(message.tag);
  const DeviceShape& shape = map_.layout.shape();
  const size_t most = direct_ ? 0 : shape.slot_bytes;  // what is put comes apart from its message
  if (tag.link >= at.links() || device::count_of(tag.cell) == 0 || message.data.size() > most)
    return Status(Code::mismatch,
                  concat("rank ", peer.rank, " sent a message of ", message.data.size(),
                         " bytes on link ", tag.link, " of its GPU's, and there are ", at.links(),
                         " links of ", most, " bytes; use one version of weft"),
                  peer.rank);
  const size_t slot = (device::count_of(tag.cell) - 1) % shape.slots * shape.slot_bytes;
  if (!credit && direct_) WEFT_TRY(direct_->flush_remote_writes());
  if (!credit && !message.data.empty())
    std::memcpy(map_.at_slots(at.received(peer.number, tag.link) + slot), message.data.data(),
                message.data.size());
  const size_t cell = credit ? at.credit(peer.number, tag.link) : at.head(peer.number, tag.link);
  word(map_.at_relay<uint64_t>(cell)).store(tag.cell, std::memory_order_release);
  return {};
}

// -- what goes ------------------------------------------------------------------------------------

bool DeviceRelay::send(Peer& peer) {
  bool moved = false;
  (void)under_way(peer);
  for (int link = 0; link < map_.relay.links() && peer.lost.ok(); ++link) {
    moved |= send_credit(peer, link);
    while (send_message(peer, link)) moved = true;
  }
  for (const SendLink* const out : {peer.out, peer.credits_out})
    if (peer.lost.ok()) peer.lost = out->status();
  return moved;
}

// A credit may be written over by a later one, and then by the same again: it is taken before it is
// sent, so that none is missed.
bool DeviceRelay::send_credit(Peer& peer, int link) {
  const auto said = word(map_.at_relay<uint64_t>(map_.relay.credit_to_carry(peer.number, link)));
  if (said.load(std::memory_order_relaxed) == 0 || peer.credits_out->reserve().empty())
    return false;
  const uint64_t credit = said.exchange(0, std::memory_order_acquire);
  peer.credits_out->commit(0, Tag{link, credit}.value());
  return true;
}

// Whether the transport still reads slots.
bool DeviceRelay::under_way(Peer& peer) {
  while (!peer.tickets.empty() && peer.out->done(peer.tickets.front())) peer.tickets.pop_front();
  return !peer.tickets.empty();
}

// The message in a slot. False where the transport has no room for it yet.
bool DeviceRelay::put(Peer& peer, int link, const device::Mark& mark) {
  const DeviceShape& shape = map_.layout.shape();
  const size_t bytes = mark.bytes & ((uint64_t{1} << device::kMarkShift) - 1);
  const size_t slot = (mark.number - 1) % shape.slots * shape.slot_bytes;
  const ConstBytes data{map_.at_slots(map_.relay.sent(peer.number, link) + slot),
                        std::min<size_t>(bytes, shape.slot_bytes)};
  const auto digest = static_cast<uint32_t>(mark.bytes >> device::kMarkShift);
  const uint64_t tag = Tag{link, device::marked(mark.number, digest)}.value();
  if (!direct_) return put_from_host(peer, data, tag);
  // There it is the same slot of those that this rank writes to.
  const auto ticket = peer.out->put(data, map_.relay.received(0, link) + slot, tag);
  if (ticket) peer.tickets.push_back(*ticket);
  return ticket.has_value();
}

bool DeviceRelay::put_from_host(Peer& peer, ConstBytes data, uint64_t tag) {
  if (peer.out->traits().send_from_memory) {
    const auto ticket = peer.out->send(data, tag);
    if (ticket) peer.tickets.push_back(*ticket);
    return ticket.has_value();
  }
  const Bytes slot = peer.out->reserve();
  if (slot.empty()) return false;
  if (!data.empty()) std::memcpy(slot.data(), data.data(), data.size());
  peer.out->commit(data.size(), tag);
  return true;
}

// The next message of a link: the one behind the last, or number 1, as numbers begin anew with each
// call where steps are launched by themselves. Then the one "behind the last" may be of the new
// call as well; it was published after number 1, which is therefore looked for after it was seen.
device::Mark* DeviceRelay::next_mark(const Peer& peer, int link) const {
  auto* const marks = map_.at_relay<device::Mark>(map_.relay.marks(peer.number, link));
  const uint64_t last = peer.carried[static_cast<size_t>(link)];
  device::Mark& next = marks[last % map_.layout.shape().slots];
  const bool there = word(&next.number).load(std::memory_order_acquire) == last + 1;
  if (word(&marks[0].number).load(std::memory_order_acquire) == 1) return &marks[0];
  return there ? &next : nullptr;
}

// Nobody writes to the slot or its mark before the peer has given the slot back.
bool DeviceRelay::send_message(Peer& peer, int link) {
  device::Mark* const mark = next_mark(peer, link);
  if (!mark) return false;
  const uint64_t number = word(&mark->number).load(std::memory_order_relaxed);
  if (!put(peer, link, {mark->bytes, number})) return false;
  word(&mark->number).store(0, std::memory_order_relaxed);
  peer.carried[static_cast<size_t>(link)] = number;
  return true;
}

// -- whether it can go on -------------------------------------------------------------------------

bool DeviceRelay::is_drained() {
  const std::lock_guard lock(mutex_);
  for (Peer& peer : peers_) {
    if (!peer.lost.ok()) continue;
    if (under_way(peer) || !peer.out->flushed() || !peer.credits_out->flushed()) return false;
    for (int link = 0; link < map_.relay.links(); ++link) {
      auto* const credit = map_.at_relay<uint64_t>(map_.relay.credit_to_carry(peer.number, link));
      if (next_mark(peer, link) || word(credit).load(std::memory_order_relaxed) != 0) return false;
    }
  }
  return true;
}

Status DeviceRelay::peer_status(Rank peer) const {
  const std::lock_guard lock(mutex_);
  for (const Peer& known : peers_)
    if (known.rank == peer) return known.lost.ok() ? media_->peer_status(peer) : known.lost;
  return {};
}

}  // namespace weft
