// What both ends do, and the sender's.
#include "transport/verbs/link.h"

#include <algorithm>
#include <cstring>
#include <new>

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
      sender_(sender),
      channel_(hub_, *this) {}

const Status& LinkEnd::status_of_link() const { return status_.ok() ? pair_.status() : status_; }

void LinkEnd::end(Status status) {
  if (status_.ok()) status_ = std::move(status);
  hub_.has_news();
}

void LinkEnd::open(Result<OwnMemory> own) {
  if (!pair_.status().ok()) return;
  Status status = own.status();
  if (own.ok()) {
    own_ = own.take();
    status = channel_.open(pair_.queues(), requests(mine_), requests(mine_));
  }
  if (!status.ok()) return end(status.within(concat("link ", id_, " with rank ", pair_.peer())));
  pair_.say(
      {ControlKind::open, sender_, id_, mine_, channel_.offer(), own_.address(), own_.rkey()});
}

void LinkEnd::opened(const Control& control) {
  if (!status_of_link().ok() || remote_key_ != 0) return;
  const Status status = meet(control);
  if (!status.ok()) return end(status);
  remote_ = control.address;
  remote_key_ = control.rkey;
  pair_.say({ControlKind::ready, sender_, id_, mine_, {}, 0, 0});
}

Status LinkEnd::meet(const Control& control) {
  if (!(control.shape == mine_))
    return sender_ ? shapes_differ(id_, hub_.rank, mine_, pair_.peer(), control.shape)
                   : shapes_differ(id_, pair_.peer(), control.shape, hub_.rank, mine_);
  return channel_.connect(pair_.place(), control.offer)
      .within(concat("link ", id_, " with rank ", pair_.peer()));
}

// What the peer said before it came after its opening, on the same connection.
void LinkEnd::ready() {
  ready_ = channel_.usable();
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
  if (!silent_ && status_of_link().ok()) pair_.suspect(*this, why);
}

VerbsSendLink::VerbsSendLink(Pair& pair, LinkId id, LinkShape shape)
    : SendLink(shape),
      LinkEnd(pair, id, shape, true),
      placements_(shape.slots, Placement{~uint64_t{0}, 0, 0, 0}),
      transfers_(shape.slots) {
  Result<OwnMemory> headers = OwnMemory::make(*hub_.device, shape.slots * sizeof(MessageHeader));
  if (headers.ok()) headers_ = headers.take();
  open(headers_ ? OwnMemory::make(*hub_.device, shape.slots * sizeof(Placement))
                : Result<OwnMemory>(headers.status()));
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
  Result<OwnMemory> made = OwnMemory::make(*hub_.device, size_t{shape_.slots} * shape_.slot_bytes);
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
  transmit({slot(), bytes}, staging_.lkey(), tag, false);
}

std::optional<Ticket> VerbsSendLink::send(ConstBytes memory, uint64_t tag) {
  WEFT_CHECK(memory.size() <= shape_.slot_bytes);
  if (!has_credit() || transfer(tickets_ + 1).under_way) return std::nullopt;
  MemoryCache::Handle registered = hub_.memory.none();
  if (memory.size() >= hub_.tuning.direct) registered = hub_.memory.acquire(memory, false);
  if (registered == hub_.memory.none()) {
    if (!make_staging()) return std::nullopt;
    std::copy(memory.begin(), memory.end(), slot());
    transmit({slot(), memory.size()}, staging_.lkey(), tag, false);
    return ++tickets_;
  }
  const int queue = queue_of_next();
  const uint64_t number = transmit(memory, registered->second.mr->lkey, tag, true);
  ++memory_users_;
  transfer(++tickets_) = {queue, number, true, registered};
  return tickets_;
}

// Where the receiver wants the next message, if it fits there.
const Placement* VerbsSendLink::placement(size_t bytes) const {
  const Placement& place = placements_[next_ % shape_.slots];
  return place.sequence == next_ && bytes > 0 && bytes <= place.bytes ? &place : nullptr;
}

// One request: header and data into the slot, or data into posted memory. Two, the data and then
// the header with the immediate, where the header goes elsewhere than the data and is needed, for a
// tag that is not the one before; and where packets may overtake each other.
uint64_t VerbsSendLink::transmit(ConstBytes data, uint32_t lkey, uint64_t tag, bool signal) {
  const int queue = queue_of_next();
  const Placement* const placed = placement(data.size());
  const bool apart = hub_.options.adaptive_routing && data.size() > hub_.tuning.announce;
  const bool split = data.size() > 0 && (apart || (placed && (next_ == 0 || tag != last_tag_)));
  const uint64_t ring = remote_ + next_ % shape_.slots * (kHeaderBytes + shape_.slot_bytes);
  auto* const header =
      new (headers_.data() + next_ % shape_.slots * sizeof(MessageHeader)) MessageHeader;
  *header = {tag, data.size()};
  ibv_sge parts[2] = {element(header, sizeof *header, headers_.lkey()),
                      element(data.data(), data.size(), lkey)};

  ibv_send_wr last{};
  last.sg_list = parts;
  last.num_sge = data.empty() ? 1 : 2;
  last.wr.rdma.remote_addr = ring + kHeaderBytes - sizeof *header;
  last.wr.rdma.rkey = remote_key_;
  ibv_send_wr first = last;
  if (split || placed) {
    first.sg_list = parts + 1;
    first.num_sge = 1;
    first.wr.rdma.remote_addr = placed ? placed->address : ring + kHeaderBytes;
    first.wr.rdma.rkey = placed ? placed->rkey : remote_key_;
  }
  if (split) {
    first.opcode = IBV_WR_RDMA_WRITE;
    channel_.post(queue, first, false);
    last.num_sge = 1;
  } else {
    last = first;
  }
  last.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  const uint32_t kind = !placed ? kInSlot : split ? kInMemoryWithHeader : kInMemory;
  last.imm_data = htobe32(immediate(kind, next_));
  size_t bytes = 0;
  for (int i = 0; i < last.num_sge; ++i) bytes += last.sg_list[i].length;
  if (channel_.fits_inline(bytes)) last.send_flags = IBV_SEND_INLINE;
  const uint64_t number = channel_.post(queue, last, signal);
  last_tag_ = tag;
  ++next_;
  return number;
}

bool VerbsSendLink::done(Ticket ticket) {
  if (ticket <= retired_tickets_) return true;
  const auto free = [&] {
    return ticket + shape_.slots <= tickets_ || !transfer(ticket).under_way;
  };
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
      hub_.memory.release(oldest.memory);
    }
    ++retired_tickets_;
  }
  hub_.has_news();
}

void VerbsSendLink::let_go() { retired(); }

void VerbsSendLink::received(int, uint32_t value, uint32_t) {
  hub_.has_news();
  if (kind_of(value) == kCredit) return take_credit(next_after(released_, value));
  const uint64_t sequence = next_after(next_ - std::min<uint64_t>(next_, shape_.slots), value);
  if (sequence < next_) return;  // sent already, and the table may be in use for its successor
  Placement told;
  std::memcpy(&told, own_.data() + sequence % shape_.slots * sizeof told, sizeof told);
  if (told.sequence == sequence) placements_[sequence % shape_.slots] = told;
}

void VerbsSendLink::take_credit(uint64_t count) {
  if (count <= next_)
    released_ = count;
  else
    end(internal_error(concat("Rank ", pair_.peer(), " gave credits for ", count,
                              " messages of link ", id_, ", of which ", next_, " were sent.")));
}

}  // namespace weft::verbs
