// The receiver's end of a link.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/text.h"
#include "transport/verbs/immediate.h"
#include "transport/verbs/link.h"
#include "transport/verbs/pair.h"

namespace weft::verbs {

VerbsRecvLink::VerbsRecvLink(Pair& pair, LinkId id, LinkShape shape)
    : RecvLink(shape), LinkEnd(pair, id, shape, false), places_(places()), posted_(places()) {
  for (Place& place : places_) place.registered = hub_.memory.none();
  for (size_t i = 0; i < expected_.size(); ++i) expected_[i] = i;
  open(table_, places() * sizeof(Placement), places() * stride());
}

std::byte* VerbsRecvLink::ring(uint64_t sequence) const {
  return own_.data() + at(sequence) * stride();
}

const MessageHeader& VerbsRecvLink::header(uint64_t sequence) const {
  return *reinterpret_cast<const MessageHeader*>(ring(sequence) + kHeaderBytes -
                                                 sizeof(MessageHeader));
}

const Status& VerbsRecvLink::status() const {
  if (!status_.ok()) return status_;
  return ready_count_ > 0 ? ok_ : status_of_link();
}

// The next message, where it is in a slot and all posted before it have arrived.
const Message* VerbsRecvLink::arrived() {
  if (claim_ >= whole_ || awaited_ > 0 || !status_.ok()) return nullptr;
  Place& next = place(claim_);
  if (next.state != State::arrived || next.posted) return nullptr;
  peeked_ = claim_++;
  holding_ = true;
  return &next.message;
}

const Message* VerbsRecvLink::peek() {
  if (holding_) return &place(peeked_).message;
  if (const Message* message = arrived()) return message;
  if (!ready_) pair_.poll_control();
  hub_.progress();
  return arrived();
}

void VerbsRecvLink::release() {
  WEFT_CHECK(holding_);
  holding_ = false;
  consume(place(peeked_));
}

void VerbsRecvLink::consume(Place& consumed) {
  consumed.state = State::consumed;
  consumed.posted = false;
  --ready_count_;
  while (place(released_).state == State::consumed) {
    place(released_).state = State::empty;
    ++released_;
  }
  const uint64_t owed = released_ - announced_;
  if (owed == 0) return;
  const bool much = owed * 2 >= shape_.slots;
  if ((much || (starving() && ready_count_ == 0)) && return_credits()) return;
  owe();
}

void VerbsRecvLink::owe() {
  pair_.owe(*this);
  if (!listed_) hub_.owing.push_back(this);
  listed_ = true;
}

// Who has sent begun_ messages knows of so many credits.
void VerbsRecvLink::repeat_credits() {
  announced_ = begun_ - std::min<uint64_t>(begun_, shape_.slots);
  if (announced_ != released_) owe();
}

void VerbsRecvLink::carry(MessageHeader& header) {
  if (announced_ == released_) return;
  header.credited = id_;
  header.credit = immediate(kCredit, released_);
  announced_ = released_;
}

// False where they cannot go now.
bool VerbsRecvLink::return_credits() {
  if (quiet() || !channel_.room(0, 1)) return false;
  ibv_send_wr credit{};
  credit.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  credit.imm_data = htobe32(immediate(kCredit, released_));
  credit.wr.rdma.remote_addr = remote_;
  credit.wr.rdma.rkey = remote_key_;
  channel_.post(0, credit, false);
  announced_ = released_;
  return true;
}

bool VerbsRecvLink::feed_starving() {
  if (announced_ != released_ && starving()) return_credits();
  listed_ = announced_ != released_ && status_of_link().ok() && !silent_;
  return listed_;
}

std::optional<Ticket> VerbsRecvLink::post(Bytes memory) {
  if (claim_ >= released_ + shape_.slots || !status_of_link().ok()) return std::nullopt;
  Place& next = place(claim_);
  if (next.state != State::empty) return std::nullopt;
  next.posted = true;
  next.memory = memory;
  ++awaited_;
  ++memory_users_;
  if (memory.size() >= hub_.tuning.direct) offer(claim_, next);
  const Ticket ticket = ++tickets_;
  posted_[at(ticket)] = claim_++;
  return ticket;
}

void VerbsRecvLink::lend(Bytes memory) {
  lends_ = true;
  ++memory_users_;
  pair_.say({ControlKind::lent,
             false,
             id_,
             mine_,
             {},
             reinterpret_cast<uint64_t>(memory.data()),
             hub_.device_memory.find(memory).rkey,
             memory.size()});
}

// Where the sender does not hear of it in time, or the device cannot, the message comes in its slot
// and is copied.
void VerbsRecvLink::offer(uint64_t sequence, Place& place) {
  if (quiet() || !channel_.room(0, 1)) return;
  place.registered = hub_.memory.acquire(place.memory, true);
  if (place.registered == hub_.memory.none()) return;
  const size_t offset = at(sequence) * sizeof(Placement);
  const size_t bytes = std::min<size_t>(place.memory.size(), shape_.slot_bytes);
  const Placement told{sequence, reinterpret_cast<uint64_t>(place.memory.data()),
                       place.registered->second.mr->rkey, static_cast<uint32_t>(bytes)};
  std::memcpy(table_.data() + offset, &told, sizeof told);
  ibv_sge part{table_.address() + offset, sizeof told, table_.lkey()};
  ibv_send_wr request{};
  request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  request.sg_list = &part;
  request.num_sge = 1;
  request.imm_data = htobe32(immediate(kPlacement, sequence));
  request.wr.rdma.remote_addr = remote_ + offset;
  request.wr.rdma.rkey = remote_key_;
  if (channel_.fits_inline(sizeof told)) request.send_flags = IBV_SEND_INLINE;
  channel_.post(0, request, false);
}

std::optional<RecvLink::Placed> VerbsRecvLink::done(Ticket ticket) {
  const uint64_t sequence = posted_[at(ticket)];
  Place& asked = place(sequence);
  const auto is_there = [&] {
    return sequence < whole_ && asked.state == State::arrived && asked.posted && status_.ok();
  };
  if (!is_there()) hub_.progress();
  if (!is_there()) return std::nullopt;
  const Placed placed{asked.message.data.size(), asked.message.tag};
  consume(asked);
  return placed;
}

void VerbsRecvLink::received(int queue, uint32_t value, uint32_t bytes) {
  uint64_t& expected = expected_[static_cast<size_t>(queue)];
  const uint64_t sequence = next_after(expected, value);
  const auto broken = [&](std::string_view what) {
    end(internal_error(concat("Rank ", pair_.peer(), " sent message ", sequence, " of link ", id_,
                              " over ", hub_.device->place().port, ", which ", what, ".")));
  };
  if (sequence != expected)
    return broken(concat("came in the place of ", expected, ": something was lost"));
  if (sequence >= released_ + shape_.slots) return broken("it had no credit for");
  const uint32_t kind = kind_of(value);
  const Place& to = place(sequence);
  const bool in_memory = kind == kInMemory || kind == kInMemoryWithHeader;
  if (kind > kInMemoryWithHeader || (in_memory && to.registered == hub_.memory.none()))
    return broken("is nowhere");
  const uint64_t length = kind == kInMemory ? bytes : header(sequence).bytes;
  if (length > (in_memory ? to.memory.size() : shape_.slot_bytes)) return broken("is too long");
  expected += static_cast<uint64_t>(channel_.queues());
  // What it says of other links counts, whatever has become of this one.
  if (kind != kInMemory) pair_.unload(header(sequence));
  if (status_.ok()) arrive(sequence, kind, static_cast<uint32_t>(length));
}

void VerbsRecvLink::arrive(uint64_t sequence, uint32_t kind, uint32_t bytes) {
  Place& to = place(sequence);
  const bool in_slot = kind == kInSlot;
  std::byte* const data = in_slot ? ring(sequence) + kHeaderBytes : to.memory.data();
  to.message = Message{{data, bytes}, kind == kInMemory ? 0 : header(sequence).tag};
  to.as_before = kind == kInMemory;
  to.state = State::arrived;
  if (to.posted && in_slot) deliver_to_memory(to);
  if (to.posted) give_back(to);
  ++begun_;
  settle_arrived();
  hub_.has_news();
}

// Tags come in order: a message may have that of the one before it.
void VerbsRecvLink::settle_arrived() {
  while (whole_ < released_ + shape_.slots && place(whole_).state == State::arrived) {
    Message& message = place(whole_).message;
    if (place(whole_).as_before) message.tag = last_tag_;
    last_tag_ = message.tag;
    ++whole_;
    ++ready_count_;
  }
}

void VerbsRecvLink::deliver_to_memory(Place& to) {
  const ConstBytes data = to.message.data;
  if (data.size() <= to.memory.size()) {
    std::copy(data.begin(), data.end(), to.memory.begin());
    to.message.data = to.memory.first(data.size());
    return;
  }
  end(Status(
      Code::mismatch,
      concat("A message of ", data.size(), " bytes came from rank ", pair_.peer(), " on link ", id_,
             " for posted memory of ", to.memory.size(), " bytes; post at least as many."),
      pair_.peer()));
}

// The posted memory is the caller's alone again.
void VerbsRecvLink::give_back(Place& to) {
  if (to.registered != hub_.memory.none()) hub_.memory.release(to.registered);
  to.registered = hub_.memory.none();
  --awaited_;
  --memory_users_;
}

// The queue pairs are gone, so nothing will come to posted memory.
void VerbsRecvLink::let_go() {
  if (std::exchange(lends_, false)) --memory_users_;
  for (Place& place : places_) {
    if (!place.posted || place.state != State::empty) continue;
    place.posted = false;
    give_back(place);
  }
}

}  // namespace weft::verbs
