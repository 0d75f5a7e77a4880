// What both ends do, and the sender's.
#include "transport/verbs/link.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <span>

#include "base/text.h"
#include "transport/shape.h"
#include "transport/verbs/immediate.h"
#include "transport/verbs/pair.h"

namespace weft::verbs {
namespace {

// How many requests: each message may need two, and drain() one.
uint32_t requests(LinkShape shape) { return 2 * std::min(shape.slots, 1u << 20) + 2; }

ibv_sge element(const void* memory, size_t bytes, uint32_t lkey) {
  return {reinterpret_cast<uint64_t>(memory), static_cast<uint32_t>(bytes), lkey};
}

}  // namespace

LinkEnd::LinkEnd(Pair& pair, LinkId id, LinkShape shape, bool sender)
    : pair_(pair),
      hub_(pair.hub()),
      id_(id),
      mine_(shape),
      mask_(std::bit_ceil(shape.slots) - 1),
      sender_(sender),
      channel_(hub_, *this) {}

const Status& LinkEnd::status_of_link() const { return status_.ok() ? pair_.status() : status_; }

void LinkEnd::end(Status status) {
  if (status_.ok()) status_ = std::move(status);
  hub_.has_news();
}

void LinkEnd::open(OwnMemory& local, size_t local_bytes, size_t own_bytes) {
  if (!pair_.status().ok()) return;
  const Status status = make(local, local_bytes, own_bytes);
  if (!status.ok()) return give_up(status);
  pair_.say(
      {ControlKind::open, sender_, id_, mine_, channel_.offer(), own_.address(), own_.rkey()});
}

Status LinkEnd::make(OwnMemory& local, size_t local_bytes, size_t own_bytes) {
  Device& device = *hub_.device;
  const size_t longest = size_t{mine_.slot_bytes} + sizeof(MessageHeader);
  if (device.message_max() != 0 && longest > device.message_max())
    return unsupported(concat("Slots of ", mine_.slot_bytes,
                              " bytes and their headers are more than ", device.place().port,
                              " sends at once, ", device.message_max(),
                              " bytes; choose shorter ones (WEFT_SLOT)."));
  Result<OwnMemory> made = OwnMemory::make(device, local_bytes);
  if (!made.ok()) return made.status();
  local = made.take();
  made = OwnMemory::make(device, own_bytes);
  if (!made.ok()) return made.status();
  own_ = made.take();
  return channel_.open(pair_.queues(), requests(mine_), requests(mine_));
}

// Whoever waits for this link, on either rank, hears why.
void LinkEnd::give_up(const Status& why) {
  pair_.say({ControlKind::broken, sender_, id_, mine_, {}, 0, 0, 0, std::string(why.message())});
  end(Status(why.code(), concat("link ", id_, " with rank ", pair_.peer(), ": ", why.message()),
             hub_.rank));
}

void LinkEnd::broken(const std::string& why) {
  end(Status(Code::system,
             concat("rank ", pair_.peer(), " could not open its end of link ", id_, ": ", why),
             pair_.peer()));
}

void LinkEnd::opened(const Control& control) {
  if (!status_of_link().ok() || remote_key_ != 0) return;
  if (!(control.shape == mine_))  // which the peer finds, too
    return end(sender_ ? shapes_differ(id_, hub_.rank, mine_, pair_.peer(), control.shape)
                       : shapes_differ(id_, pair_.peer(), control.shape, hub_.rank, mine_));
  const Status status = channel_.connect(pair_.place(), control.offer);
  if (!status.ok()) return give_up(status);
  remote_ = control.address;
  remote_key_ = control.rkey;
  pair_.say({ControlKind::ready, sender_, id_, mine_, {}, 0, 0});
}

// What the peer said before it came after its opening, on the same connection.
void LinkEnd::ready() {
  ready_ = channel_.usable();
  hub_.has_news();
}

void LinkEnd::lent(const Control& control) {
  lent_ = control;
  hub_.has_news();
}

void LinkEnd::silence() {
  silent_ = true;
  channel_.close();
  let_go();
  hub_.has_news();
}

void LinkEnd::opened_again(LinkShape shape) {
  if (!(shape == mine_)) end(shape_changed(id_, mine_, shape));
}

void LinkEnd::abandon() {
  channel_.close();
  let_go();
  end(Status(Code::aborted, concat("Link ", id_, " with rank ", pair_.peer(),
                                   " was abandoned with a transfer from or to memory under way.")));
}

void LinkEnd::failed(const std::string& why) {
  failure_ = why;
  if (!trouble().empty()) pair_.suspect(*this);
}

VerbsSendLink::VerbsSendLink(Pair& pair, LinkId id, LinkShape shape)
    : SendLink(shape),
      LinkEnd(pair, id, shape, true),
      placements_(places(), Placement{~uint64_t{0}, 0, 0, 0}),
      transfers_(places()) {
  open(headers_, places() * sizeof(MessageHeader), places() * sizeof(Placement));
}

bool VerbsSendLink::may_send() const {
  return !quiet() && next_ < released_ + shape_.slots && channel_.room(queue_of_next(), 2);
}

bool VerbsSendLink::has_credit() {
  if (may_send()) return true;
  if (!ready_) pair_.poll_control();
  hub_.progress();
  return may_send();
}

bool VerbsSendLink::make_staging() {
  if (staging_) return true;
  Result<OwnMemory> made = OwnMemory::make(*hub_.device, places() * stride());
  if (!made.ok()) return end(made.status().within(concat("link ", id_))), false;
  staging_ = made.take();
  return true;
}

Bytes VerbsSendLink::reserve() {
  if (!has_credit() || !make_staging()) return {};
  return {slot(), shape_.slot_bytes};
}

void VerbsSendLink::commit(size_t bytes, uint64_t tag) {
  WEFT_CHECK(bytes <= shape_.slot_bytes && staging_);
  transmit_slot(bytes, tag);
}

void VerbsSendLink::transmit_slot(size_t bytes, uint64_t tag) {
  transmit({slot() - sizeof(MessageHeader), staging_.lkey(), {slot(), bytes}, staging_.lkey()}, tag,
           false);
}

std::optional<Ticket> VerbsSendLink::send(ConstBytes memory, uint64_t tag) {
  WEFT_CHECK(memory.size() <= shape_.slot_bytes);
  if (!has_credit() || transfer(tickets_ + 1).under_way) return std::nullopt;
  MemoryCache::Handle registered = hub_.memory.none();
  if (memory.size() >= hub_.tuning.direct) registered = hub_.memory.acquire(memory, false);
  if (registered == hub_.memory.none()) {
    if (!make_staging()) return std::nullopt;
    std::copy(memory.begin(), memory.end(), slot());
    transmit_slot(memory.size(), tag);
    return ++tickets_;
  }
  const int queue = queue_of_next();
  std::byte* const header = headers_.data() + at(next_) * sizeof(MessageHeader);
  const uint64_t number =
      transmit({header, headers_.lkey(), memory, registered->second.mr->lkey}, tag, true);
  ++memory_users_;
  transfer(++tickets_) = {queue, number, true, registered};
  return tickets_;
}

std::optional<Ticket> VerbsSendLink::put(ConstBytes memory, size_t offset, uint64_t tag) {
  if (!has_credit() || transfer(tickets_ + 1).under_way || lent_.lent_bytes == 0)
    return std::nullopt;
  if (offset > lent_.lent_bytes || memory.size() > lent_.lent_bytes - offset) {
    end(Status(Code::mismatch,
               concat("Link ", id_, " was to put ", memory.size(), " bytes at ", offset, " of ",
                      lent_.lent_bytes, " that rank ", pair_.peer(), " lends; lend as many."),
               pair_.peer()));
    return std::nullopt;
  }
  const int queue = queue_of_next();
  if (!memory.empty()) {
    ibv_sge part = element(memory.data(), memory.size(), hub_.device_memory.find(memory).lkey);
    ibv_send_wr request{};
    request.opcode = IBV_WR_RDMA_WRITE;
    request.sg_list = &part;
    request.num_sge = 1;
    request.wr.rdma.remote_addr = lent_.address + offset;
    request.wr.rdma.rkey = lent_.rkey;
    channel_.post(queue, request, false);
  }
  std::byte* const header = headers_.data() + at(next_) * sizeof(MessageHeader);
  const uint64_t number = transmit({header, headers_.lkey(), {}, 0}, tag, true);
  ++memory_users_;
  transfer(++tickets_) = {queue, number, true, hub_.memory.none()};
  return tickets_;
}

// Where the receiver wants the next message, if it fits there.
const Placement* VerbsSendLink::placement(size_t bytes) const {
  const Placement& place = placements_[at(next_)];
  return place.sequence == next_ && bytes > 0 && bytes <= place.bytes ? &place : nullptr;
}

// One request: header and data into the slot, or data into posted memory. Two, the data and then
// the header with the immediate, where the header goes elsewhere than the data and is needed, for a
// tag that is not the one before; and where packets may overtake each other.
uint64_t VerbsSendLink::transmit(const Outgoing& out, uint64_t tag, bool signal) {
  const size_t bytes = out.data.size();
  const Placement* const placed = placement(bytes);
  const bool apart = hub_.options.adaptive_routing && bytes > hub_.tuning.announce;
  const bool split = bytes > 0 && (apart || (placed && (next_ == 0 || tag != last_tag_)));
  const uint64_t ring = remote_ + at(next_) * stride() + kHeaderBytes;
  const Target header_to{ring - sizeof(MessageHeader), remote_key_};
  const Target data_to = placed ? Target{placed->address, placed->rkey} : Target{ring, remote_key_};

  auto* const header = new (out.header) MessageHeader{tag, static_cast<uint32_t>(bytes)};
  if (channel_.usable() && (!placed || split)) pair_.load(*header);
  ibv_sge parts[2] = {element(header, sizeof *header, out.header_key),
                      element(out.data.data(), bytes, out.data_key)};
  std::span<ibv_sge> last = parts;
  if (split) {
    post({parts + 1, 1}, data_to, IBV_WR_RDMA_WRITE, 0, false);
    last = last.first(1);
  } else if (placed) {
    last = last.last(1);
  } else if (out.header + sizeof *header == out.data.data()) {
    parts[0].length += parts[1].length;
    last = last.first(1);
  } else if (bytes == 0) {
    last = last.first(1);
  }
  const uint32_t kind = !placed ? kInSlot : split ? kInMemoryWithHeader : kInMemory;
  const uint64_t number = post(last, kind == kInMemory ? data_to : header_to,
                               IBV_WR_RDMA_WRITE_WITH_IMM, immediate(kind, next_), signal);
  last_tag_ = tag;
  ++next_;
  return number;
}

uint64_t VerbsSendLink::post(std::span<ibv_sge> parts, const Target& to, ibv_wr_opcode opcode,
                             uint32_t immediate, bool signal) {
  ibv_send_wr request{};
  request.opcode = opcode;
  request.imm_data = htobe32(immediate);
  request.sg_list = parts.data();
  request.num_sge = static_cast<int>(parts.size());
  request.wr.rdma.remote_addr = to.address;
  request.wr.rdma.rkey = to.rkey;
  size_t bytes = 0;
  for (const ibv_sge& part : parts) bytes += part.length;
  if (channel_.fits_inline(bytes)) request.send_flags = IBV_SEND_INLINE;
  return channel_.post(queue_of_next(), request, signal);
}

bool VerbsSendLink::done(Ticket ticket) {
  if (ticket <= retired_tickets_) return true;
  const auto free = [&] { return ticket + places() <= tickets_ || !transfer(ticket).under_way; };
  if (!free()) hub_.progress();
  return free();
}

void VerbsSendLink::retired() {
  while (retired_tickets_ < tickets_) {
    Transfer& oldest = transfer(retired_tickets_ + 1);
    if (oldest.under_way) {
      if (!channel_.retired(oldest.queue, oldest.number)) break;
      oldest.under_way = false;
      --memory_users_;
      if (oldest.memory != hub_.memory.none()) hub_.memory.release(oldest.memory);
    }
    ++retired_tickets_;
  }
  hub_.has_news();
}

void VerbsSendLink::let_go() {
  retired();
  pair_.repeat_credits();
}

void VerbsSendLink::received(int, uint32_t value, uint32_t) {
  hub_.has_news();
  if (kind_of(value) == kCredit) return take_credit(value);
  const uint64_t sequence = next_after(next_ - std::min<uint64_t>(next_, shape_.slots), value);
  if (sequence < next_) return;  // sent already, and the table may be in use for its successor
  Placement told;
  std::memcpy(&told, own_.data() + at(sequence) * sizeof told, sizeof told);
  if (told.sequence == sequence) placements_[at(sequence)] = told;
}

void VerbsSendLink::take_credit(uint32_t immediate) {
  const uint64_t count = nearest(released_, immediate);
  if (count <= next_)
    released_ = std::max(released_, count);
  else
    end(internal_error(concat("Rank ", pair_.peer(), " gave credits for ", count,
                              " messages of link ", id_, ", of which ", next_, " were sent.")));
}

}  // namespace weft::verbs
