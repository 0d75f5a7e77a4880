// The two ends of a link over RDMA.
//
// The receiver's end owns a ring of slots; the sender writes the messages into them in turn, or, if
// the receiver has told it a place for a message, into posted memory. An immediate says that a
// message is complete:
//
//   sender -> receiver   slot n; or memory n (tag as the message before); or memory n with a header
//   receiver -> sender   n messages released; or the place of message n is in your table
//
// Invariants:
// 1. Only what an immediate has announced is looked at: the data is in memory then, in whatever
//    order the network and the device have written it.
// 2. Message n travels over queue pair n % queues, immediates for the sender over queue pair 0. A
//    number that is not the next one on its queue pair ends the link: something was lost.
// 3. The header (tag, length) of a message in a slot lies right before its data, and travels with
//    it. That of a message in posted memory lies in its slot, and travels only if it must: see
//    VerbsSendLink::transmit().
// 4. What is put goes, by a plain write, where the receiver has lent memory, followed by a message
//    of no bytes. No CPU touches either memory: such a write is never inline.
// 5. Credits are as over TCP: releases count in order, a sender without any is told at once, and
//    what is owed rides with the next header that goes to the same rank. Where the queue pairs of
//    the link that carried it are destroyed, it is owed once more: see Pair::repeat_credits().
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "transport/transport.h"
#include "transport/verbs/channel.h"
#include "transport/verbs/hub.h"
#include "transport/verbs/place.h"

namespace weft::verbs {

class Pair;

inline constexpr uint32_t kNoCredit = ~0u;  // no immediate of a credit

struct MessageHeader {
  uint64_t tag = 0;
  uint32_t bytes = 0;
  LinkId credited = 0;  // the link that the credit is for
  uint32_t credit = kNoCredit;
};

// Where the sender may put message `sequence` instead of its slot.
struct Placement {
  uint64_t sequence = 0;
  uint64_t address = 0;
  uint32_t rkey = 0;
  uint32_t bytes = 0;
};

inline constexpr size_t kHeaderBytes = 64;  // so that data begins at a cache line

// What both ends are: how they open, meet and break.
class LinkEnd : public ChannelUser {
 public:
  // The peer's end says this.
  void opened(const Control& control);
  void ready();
  void lent(const Control& control);
  void broken(const std::string& why);
  void silence();  // it has ended its traffic
  void opened_again(LinkShape shape);

  // Ends traffic that touches callers' memory; true where there was any. The peer is to be told
  // first.
  bool has_memory() const { return memory_users_ > 0; }
  void abandon();

  // Whether nothing that was posted is unfinished, or ever will be finished.
  bool settled() const { return !channel_.usable() || channel_.idle(); }
  void settle() { channel_.drain(); }
  const Channel& channel() const { return channel_; }

  void failed(const std::string& why) override;
  // Why its queue pairs do not work, though nobody has ended the link; else empty.
  std::string_view trouble() const {
    return silent_ || !status_of_link().ok() ? std::string_view() : failure_;
  }

 protected:
  LinkEnd(Pair& pair, LinkId id, LinkShape shape, bool sender);
  ~LinkEnd() = default;

  // Makes `local`, of so many bytes, what the peer will write to, of `own_bytes`, and the queue
  // pairs, and tells the peer.
  void open(OwnMemory& local, size_t local_bytes, size_t own_bytes);
  virtual void let_go() = 0;  // of callers' memory: the queue pairs are gone
  const Status& status_of_link() const;
  bool quiet() const { return !ready_ || silent_ || !status_of_link().ok() || !channel_.usable(); }
  void end(Status status);

  // Rings have a power of two of places, the link's slots or more, so that one is found without a
  // division. Only so many messages as there are slots are ever on their way.
  size_t places() const { return mask_ + 1; }
  size_t at(uint64_t number) const { return number & mask_; }
  size_t stride() const { return kHeaderBytes + mine_.slot_bytes; }

  Pair& pair_;
  Hub& hub_;
  const LinkId id_;
  const LinkShape mine_;
  const size_t mask_;
  const bool sender_;
  Channel channel_;
  OwnMemory own_;        // that the peer writes to
  uint64_t remote_ = 0;  // the peer's
  uint32_t remote_key_ = 0;
  Control lent_{};  // what the peer lends, if its lent_bytes are not 0
  Status status_;
  bool ready_ = false;    // both ends have connected
  bool silent_ = false;   // the peer has abandoned its end
  int memory_users_ = 0;  // transfers from or to callers' memory that are not done

 private:
  Status make(OwnMemory& local, size_t local_bytes, size_t own_bytes);
  void give_up(const Status& why);

  std::string failure_;  // of a queue pair
};

class VerbsSendLink final : public SendLink, public LinkEnd {
 public:
  VerbsSendLink(Pair& pair, LinkId id, LinkShape shape);
  ~VerbsSendLink() override { channel_.close(); }  // before its memory goes

  Bytes reserve() override;
  void commit(size_t bytes, uint64_t tag) override;
  std::optional<Ticket> send(ConstBytes memory, uint64_t tag) override;
  bool done(Ticket ticket) override;
  std::optional<Ticket> put(ConstBytes memory, size_t offset, uint64_t tag) override;
  // What is posted the device moves on by itself, as long as the process lives.
  bool flushed() override { return true; }
  LinkTraits traits() const override { return {.send_from_memory = true}; }
  const Status& status() const override { return status_of_link(); }

  void received(int queue, uint32_t immediate, uint32_t bytes) override;
  void retired() override;
  void take_credit(uint32_t immediate);

 private:
  // From caller's memory.
  struct Transfer {
    int queue = 0;
    uint64_t number = 0;  // of the request, in its queue
    bool under_way = false;
    MemoryCache::Handle memory;
  };
  bool has_credit();
  bool may_send() const;
  Transfer& transfer(Ticket ticket) { return transfers_[at(ticket)]; }
  bool make_staging();
  int queue_of_next() const {
    const auto queues = static_cast<uint64_t>(channel_.queues());
    return queues == 1 ? 0 : static_cast<int>(next_ % queues);
  }
  std::byte* slot() { return staging_.data() + at(next_) * stride() + kHeaderBytes; }
  // A message and memory for its header, which may lie right before it.
  struct Outgoing {
    std::byte* header;
    uint32_t header_key;
    ConstBytes data;
    uint32_t data_key;
  };
  struct Target {
    uint64_t address;
    uint32_t rkey;
  };
  // Both give the number of the last request.
  uint64_t transmit(const Outgoing& out, uint64_t tag, bool signal);
  uint64_t post(std::span<ibv_sge> parts, const Target& to, ibv_wr_opcode opcode,
                uint32_t immediate, bool signal);
  void transmit_slot(size_t bytes, uint64_t tag);
  const Placement* placement(size_t bytes) const;
  void let_go() override;

  // One per place: headers of what is sent from memory, messages behind their headers (where that
  // is needed); and, in own_, the table of placements.
  OwnMemory headers_;
  OwnMemory staging_;
  std::vector<Placement> placements_;
  std::vector<Transfer> transfers_;
  uint64_t next_ = 0;
  uint64_t released_ = 0;
  uint64_t last_tag_ = 0;
  Ticket tickets_ = 0;
  Ticket retired_tickets_ = 0;  // all up to this one are done
};

class VerbsRecvLink final : public RecvLink, public LinkEnd {
 public:
  VerbsRecvLink(Pair& pair, LinkId id, LinkShape shape);
  ~VerbsRecvLink() override { channel_.close(); }  // before its memory goes

  const Message* peek() override;
  void release() override;
  std::optional<Ticket> post(Bytes memory) override;
  std::optional<Placed> done(Ticket ticket) override;
  void lend(Bytes memory) override;
  LinkTraits traits() const override { return {.recv_into_memory = true}; }
  const Status& status() const override;

  void received(int queue, uint32_t immediate, uint32_t bytes) override;
  // Returns credits where the sender has none left. True while some are still owed.
  bool feed_starving();
  // What it owes goes with a header.
  void carry(MessageHeader& header);
  // What it has said of credits may be lost.
  void repeat_credits();

 private:
  enum class State : uint8_t { empty, arrived, consumed };
  struct Place {
    State state = State::empty;
    bool posted = false;     // goes to `memory`
    bool as_before = false;  // has the tag of the message before it
    Bytes memory;
    MemoryCache::Handle registered;  // for the sender to write to, or none
    Message message;
  };
  Place& place(uint64_t sequence) { return places_[at(sequence)]; }
  std::byte* ring(uint64_t sequence) const;
  const MessageHeader& header(uint64_t sequence) const;
  const Message* arrived();
  void arrive(uint64_t sequence, uint32_t kind, uint32_t bytes);
  void settle_arrived();
  void deliver_to_memory(Place& place);
  void consume(Place& place);
  void owe();
  void give_back(Place& place);
  void offer(uint64_t sequence, Place& place);
  bool return_credits();
  bool starving() const { return begun_ - announced_ >= shape_.slots; }
  void let_go() override;

  const Status ok_;  // what status() says while messages of a lost peer wait to be looked at
  std::vector<Place> places_;
  std::array<uint64_t, kQueuesMax> expected_{};  // number of the next message, by queue
  OwnMemory table_;                              // copies of the placements that are on their way
  uint64_t claim_ = 0;   // of the first message neither peeked at nor posted for
  uint64_t peeked_ = 0;  // what peek() gave, where `holding_`
  bool holding_ = false;
  uint64_t begun_ = 0;  // messages that have arrived
  uint64_t whole_ = 0;  // of the first that has not arrived: those before have their tags
  uint64_t last_tag_ = 0;
  uint64_t released_ = 0;     // of the first message not yet released
  uint64_t announced_ = 0;    // what the sender knows of released_, or less
  uint32_t awaited_ = 0;      // posted for and not arrived
  uint32_t ready_count_ = 0;  // of messages that are whole and not consumed
  bool listed_ = false;       // in Hub::owing
  Ticket tickets_ = 0;
  std::vector<uint64_t> posted_;  // number by ticket
  bool lends_ = false;
};

}  // namespace weft::verbs
