// The two ends of a link over TCP.
//
// Invariants:
// 1. What a sender has under way, by what the receiver has said to be released, weighs no more than
//    its slots do, and nothing goes until the receiver has opened its end (credit.h).
// 2. The receiver releases in order of sequence: a message that was consumed early (posted memory
//    and slots may be given back in any order) counts only when all before it are consumed. So
//    sequence % places names a place that is free when a message with that number may come.
// 3. Messages of one link may travel over several streams and complete in any order; peek() and
//    done() give them in order.
// 4. A sender that may have no credit for a whole slot, as far as it knows, although more has been
//    released, is told so: at release() once half of the slots are owed or nothing else is there to
//    be released, and else by the transport's next poll() or wait().
#pragma once

#include <memory>
#include <vector>

#include "transport/tcp/credit.h"
#include "transport/tcp/slot_pool.h"
#include "transport/tcp/stream.h"
#include "transport/transport.h"

namespace weft::tcp {

class Pair;

class TcpSendLink final : public SendLink, public FrameOwner {
 public:
  TcpSendLink(Pair& pair, LinkId id, LinkShape shape);

  Bytes reserve() override;
  void commit(size_t bytes, uint64_t tag) override;
  std::optional<Ticket> send(ConstBytes memory, uint64_t tag) override;
  bool done(Ticket ticket) override;
  bool flushed() override;
  LinkTraits traits() const override { return {.send_from_memory = true}; }
  const Status& status() const override;

  // This end has been opened once more; the other end has been opened, with this shape.
  void opened_again(LinkShape shape);
  void opened(LinkShape other);
  // False where the count cannot be.
  bool released(uint64_t count);
  void sent(uint64_t token) override;
  // Whether something sent from memory was not written yet: then the link is broken.
  bool abandon();

 private:
  struct Slot {
    SlotPool::Memory memory;
    size_t bytes = 0;
  };

  bool has_credit(size_t bytes);
  Slot slot_for(size_t bytes);
  void transmit(ConstBytes bytes, uint64_t tag, uint64_t token);

  Pair& pair_;
  const LinkId id_;
  Status status_;
  const Credit credit_;
  bool open_ = false;             // at the other end
  uint64_t next_ = 0;             // sequence of the next message
  uint64_t released_ = 0;         // of the first one that the receiver may not have released
  uint32_t under_way_ = 0;        // weight of those between
  std::vector<uint8_t> weights_;  // by sequence % places
  size_t unsent_ = 0;             // messages not yet handed to the kernel whole
  SlotPool::Memory reserved_;     // for the next message
  std::vector<Slot> slots_;       // of those committed and not yet written
  Ticket tickets_ = 0;
  std::vector<bool> unwritten_;  // by ticket % places
};

class TcpRecvLink final : public RecvLink {
 public:
  TcpRecvLink(Pair& pair, LinkId id, LinkShape shape);

  const Message* peek() override;
  void release() override;
  std::optional<Ticket> post(Bytes memory) override;
  std::optional<Placed> done(Ticket ticket) override;
  LinkTraits traits() const override { return {.recv_into_memory = true}; }
  const Status& status() const override;

  void opened_again(LinkShape shape);
  void opened(LinkShape other);
  // A message has begun to arrive: where its payload goes, or what is wrong with it. nullptr where
  // it goes nowhere, for want of memory: then the link is broken, and the connection goes on.
  Result<std::byte*> begin(const Frame& frame);
  // It has arrived in full.
  void finish(uint64_t sequence);

  // Where messages were still to come to posted memory the link is broken: they go to slots.
  void abandon();
  // Where a message that is coming goes now; nullptr: nowhere, the link is broken.
  std::byte* slot(uint64_t sequence) { return slot_of(place(sequence)); }

  LinkId id() const { return id_; }
  uint64_t owed() const { return released_ - announced_; }
  // The sender may have no credit left for a slot, as far as it knows.
  bool starving() const { return unreleased_ + owed_ + Credit::kSlot > credit_.all(); }
  // How many have been released, to be told to the sender now.
  uint64_t announce() {
    owed_ = 0;
    return announced_ = released_;
  }

 private:
  enum class State : uint8_t { empty, filling, ready, consumed };
  struct Place {
    State state = State::empty;
    bool posted = false;  // goes to `memory`, not to the slot
    Bytes memory;
    uint8_t weight = 0;
    SlotPool::Memory slot;
    Message message;
  };
  Place& place(uint64_t sequence) { return places_[sequence % places_.size()]; }
  // nullptr where the process has no memory left.
  std::byte* slot_of(Place& place);
  const Message* arrived();
  void consume(Place& place);

  Pair& pair_;
  const LinkId id_;
  const Status ok_;  // what status() says while messages of a lost peer wait to be looked at
  Status status_;
  const Credit credit_;
  std::vector<Place> places_;
  uint64_t claim_ = 0;   // sequence of the first message neither peeked at nor posted for
  uint64_t peeked_ = 0;  // sequence of what peek() gave, where `holding_`
  bool holding_ = false;
  uint64_t released_ = 0;    // sequence of the first message not yet released
  uint64_t announced_ = 0;   // what the sender knows of released_
  uint32_t unreleased_ = 0;  // weight of those whose header has come
  uint32_t owed_ = 0;        // and of those released that the sender does not know of
  uint32_t awaited_ = 0;     // posted messages that have not arrived
  uint32_t ready_ = 0;       // arrived, not yet consumed
  Ticket tickets_ = 0;
  std::vector<uint64_t> posted_;  // sequence by ticket % places
};

}  // namespace weft::tcp
