#include "transport/tcp/link.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "transport/shape.h"
#include "transport/tcp/pair.h"

namespace weft::tcp {
namespace {

constexpr uint64_t kTicketToken = uint64_t{1} << 63;  // else the token is the number of a slot

Status abandoned(LinkId id, const Pair& pair) {
  return Status(Code::aborted, "Link " + std::to_string(id) + " with " + pair.who() +
                                   " was abandoned with a transfer from or to memory under way.");
}

// What this rank lacks is no fault of the peer's.
Status no_memory(LinkId id, LinkShape shape, const Pair& pair) {
  return Status(Code::system,
                concat("Cannot allocate memory for a message of link ", id, " with ", pair.who(),
                       ", ", shape.slot_bytes, " bytes; let the process have more (ulimit -v), or ",
                       "make messages smaller (WEFT_SLOT)."),
                pair.rank());
}

}  // namespace

TcpSendLink::TcpSendLink(Pair& pair, LinkId id, LinkShape shape)
    : SendLink(shape),
      pair_(pair),
      id_(id),
      credit_(shape),
      weights_(credit_.places()),
      slots_(credit_.places()),
      unwritten_(credit_.places()) {}

bool TcpSendLink::has_credit(size_t bytes) {
  const auto has = [this, weight = credit_.weight(bytes)] {
    return open_ && under_way_ + weight <= credit_.all() && status().ok();
  };
  if (has()) return true;
  pair_.progress();
  return has();
}

Bytes TcpSendLink::reserve() {
  if (!has_credit(shape_.slot_bytes)) return {};
  if (!reserved_) reserved_ = pair_.pool().take(shape_.slot_bytes);
  if (reserved_) return {reserved_.get(), shape_.slot_bytes};
  status_ = no_memory(id_, shape_, pair_);
  return {};
}

void TcpSendLink::commit(size_t bytes, uint64_t tag) {
  WEFT_CHECK(bytes <= shape_.slot_bytes && reserved_);
  // There are more only where a peer lies about what it has released.
  const auto at =
      std::find_if(slots_.begin(), slots_.end(), [](const Slot& s) { return !s.memory; });
  const auto token = static_cast<uint64_t>(at - slots_.begin());
  Slot& slot = at == slots_.end() ? slots_.emplace_back() : *at;
  slot = slot_for(bytes);
  transmit({slot.memory.get(), bytes}, tag, token);
}

// What was reserved; of short messages a copy, lest many hold a whole slot each. Where there is no
// memory for one, they do.
TcpSendLink::Slot TcpSendLink::slot_for(size_t bytes) {
  if (credit_.is_short(bytes)) {
    Slot copy{pair_.pool().take(Credit::kShortBytes), Credit::kShortBytes};
    if (copy.memory) {
      std::copy_n(reserved_.get(), bytes, copy.memory.get());
      return copy;
    }
  }
  return {std::move(reserved_), shape_.slot_bytes};
}

std::optional<Ticket> TcpSendLink::send(ConstBytes memory, uint64_t tag) {
  WEFT_CHECK(memory.size() <= shape_.slot_bytes);
  if (!has_credit(memory.size())) return std::nullopt;
  const Ticket ticket = ++tickets_;
  unwritten_[ticket % unwritten_.size()] = true;
  transmit(memory, tag, kTicketToken | ticket);
  return ticket;
}

void TcpSendLink::transmit(ConstBytes bytes, uint64_t tag, uint64_t token) {
  const Frame frame{FrameKind::data, id_, static_cast<uint32_t>(bytes.size()), next_, tag};
  const uint8_t weight = credit_.weight(bytes.size());
  weights_[next_ % weights_.size()] = weight;
  under_way_ += weight;
  ++next_;
  ++unsent_;
  pair_.transmit(frame, bytes, this, token);
}

void TcpSendLink::sent(uint64_t token) {
  --unsent_;
  if (token & kTicketToken)
    unwritten_[(token ^ kTicketToken) % unwritten_.size()] = false;
  else
    pair_.pool().give(std::move(slots_[token].memory), slots_[token].bytes);
}

bool TcpSendLink::done(Ticket ticket) {
  // A newer ticket in its place had a credit, so this message was even released.
  const auto written = [&] {
    return ticket + unwritten_.size() <= tickets_ || !unwritten_[ticket % unwritten_.size()];
  };
  if (written()) return true;
  pair_.progress();
  return written();
}

bool TcpSendLink::abandon() {
  const auto first = std::find(unwritten_.begin(), unwritten_.end(), true);
  if (first == unwritten_.end()) return false;
  std::fill(first, unwritten_.end(), false);
  if (status_.ok()) status_ = abandoned(id_, pair_);
  return true;
}

bool TcpSendLink::flushed() {
  if (unsent_ > 0) pair_.progress();
  return unsent_ == 0;
}

const Status& TcpSendLink::status() const { return status_.ok() ? pair_.status() : status_; }

void TcpSendLink::opened_again(LinkShape shape) {
  if (!(shape == shape_) && status_.ok()) status_ = shape_changed(id_, shape_, shape);
}

void TcpSendLink::opened(LinkShape other) {
  if (!(other == shape_))
    status_ = shapes_differ(id_, pair_.rank(), shape_, pair_.peer(), other);
  else
    open_ = true;
}

bool TcpSendLink::released(uint64_t count) {
  if (!open_ || count > next_ - unsent_) return false;  // what has not left was not received
  for (; released_ < count; ++released_) under_way_ -= weights_[released_ % weights_.size()];
  return true;
}

TcpRecvLink::TcpRecvLink(Pair& pair, LinkId id, LinkShape shape)
    : RecvLink(shape),
      pair_(pair),
      id_(id),
      credit_(shape),
      places_(credit_.places()),
      posted_(credit_.places()) {}

std::byte* TcpRecvLink::slot_of(Place& place) {
  if (!place.slot) place.slot = pair_.pool().take(credit_.slot_bytes(place.weight, shape_));
  return place.slot.get();
}

// The next message, where it is in a slot and all posted before it have arrived.
const Message* TcpRecvLink::arrived() {
  Place& next = place(claim_);
  if (awaited_ > 0 || next.state != State::ready || next.posted || !status_.ok()) return nullptr;
  peeked_ = claim_++;
  holding_ = true;
  return &next.message;
}

const Message* TcpRecvLink::peek() {
  if (holding_) return &place(peeked_).message;
  if (const Message* message = arrived()) return message;
  pair_.progress();
  return arrived();
}

void TcpRecvLink::release() {
  WEFT_CHECK(holding_);
  holding_ = false;
  consume(place(peeked_));
}

void TcpRecvLink::consume(Place& consumed) {
  const uint64_t was_owed = owed();
  consumed.state = State::consumed;
  consumed.posted = false;
  if (consumed.slot)
    pair_.pool().give(std::move(consumed.slot), credit_.slot_bytes(consumed.weight, shape_));
  --ready_;
  for (; place(released_).state == State::consumed; ++released_) {
    Place& released = place(released_);
    released.state = State::empty;
    unreleased_ -= released.weight;
    owed_ += released.weight;
  }
  if (owed() == 0) return;
  if (was_owed == 0) pair_.owe(*this);
  const bool much = owed_ * 2 >= credit_.all();
  if (much || (starving() && ready_ == 0)) pair_.return_credits();
}

std::optional<Ticket> TcpRecvLink::post(Bytes memory) {
  if (claim_ >= released_ + places_.size() || !status_.ok()) return std::nullopt;
  Place& next = place(claim_);
  if (next.state != State::empty) return std::nullopt;
  next.posted = true;
  next.memory = memory;
  ++awaited_;
  const Ticket ticket = ++tickets_;
  posted_[ticket % posted_.size()] = claim_++;
  return ticket;
}

std::optional<RecvLink::Placed> TcpRecvLink::done(Ticket ticket) {
  Place& asked = place(posted_[ticket % posted_.size()]);
  if (asked.state != State::ready) pair_.progress();
  if (asked.state != State::ready || !asked.posted) return std::nullopt;
  const Placed placed{asked.message.data.size(), asked.message.tag};
  consume(asked);
  return placed;
}

void TcpRecvLink::abandon() {
  if (awaited_ == 0) return;
  for (Place& place : places_) {
    if (!place.posted || place.state == State::ready) continue;
    place.posted = false;
    place.memory = {};
    place.message = {};
  }
  awaited_ = 0;
  if (status_.ok()) status_ = abandoned(id_, pair_);
}

// Whether the next message is there. What came by another stream behind one that is lost can never
// be taken.
const Status& TcpRecvLink::status() const {
  if (!status_.ok()) return status_;
  const Place& next = places_[released_ % places_.size()];
  return next.state == State::ready ? ok_ : pair_.status();
}

void TcpRecvLink::opened_again(LinkShape shape) {
  if (!(shape == shape_) && status_.ok()) status_ = shape_changed(id_, shape_, shape);
}

void TcpRecvLink::opened(LinkShape other) {
  if (!(other == shape_)) status_ = shapes_differ(id_, pair_.peer(), other, pair_.rank(), shape_);
}

Result<std::byte*> TcpRecvLink::begin(const Frame& frame) {
  const auto broken = [&](std::string_view what) {
    return Status(Code::internal, "it sent message " + std::to_string(frame.sequence) + " of " +
                                      std::to_string(frame.length) + " bytes on link " +
                                      std::to_string(id_) + " (" + to_string(shape_) + "), which " +
                                      std::string(what));
  };
  if (frame.length > shape_.slot_bytes) return broken("is too long");
  const uint8_t weight = credit_.weight(frame.length);
  if (frame.sequence < released_ || frame.sequence >= released_ + places_.size() ||
      unreleased_ + weight > credit_.all())
    return broken("it had no credit for");
  Place& to = place(frame.sequence);
  if (to.state != State::empty) return broken("had been sent before");
  to.state = State::filling;
  to.weight = weight;
  unreleased_ += weight;
  std::byte* memory = to.memory.data();
  if (to.posted && frame.length > to.memory.size()) {
    status_ =
        Status(Code::mismatch,
               "A message of " + std::to_string(frame.length) + " bytes came from " + pair_.who() +
                   " on link " + std::to_string(id_) + " for posted memory of " +
                   std::to_string(to.memory.size()) + " bytes; post at least as many.",
               pair_.peer());
    to.posted = false;  // it goes to the slot and stays there: the link is dead
  }
  if (!to.posted) {
    memory = slot_of(to);
    if (!memory && status_.ok()) status_ = no_memory(id_, shape_, pair_);
  }
  to.message = Message{{memory, frame.length}, frame.tag};
  return memory;
}

void TcpRecvLink::finish(uint64_t sequence) {
  Place& arrived = place(sequence);
  arrived.state = State::ready;
  if (arrived.posted) --awaited_;
  ++ready_;
}

}  // namespace weft::tcp
