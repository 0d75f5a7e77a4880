// What a medium offers to a schedule: links (two-sided, with credits) and windows (mapped memory).
//
// Thread safety: a Transport, its links and windows are driven by one thread at a time; handing
// over from one thread to another needs a happens-before edge. Nothing here blocks except
// Transport::wait. A communicator owns its transports; links and windows live as long as their
// transport.
//
// Lifecycle: make -> address() is exchanged by the bootstrap -> join(addresses) -> open_*() at any
// time, in any order on the two ends. An open end is usable at once: until the other end has opened
// too, reserve() and peek() just find nothing. Failures show up in status() and peer_status().
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/key.h"
#include "base/options.h"
#include "base/status.h"
#include "base/types.h"

namespace weft {

// Names a link between an ordered pair of ranks; each (from, to, id) is one FIFO.
using LinkId = uint32_t;

struct LinkShape {
  uint32_t slots = 0;       // messages under way at most, >= 1; short ones may be more
  uint32_t slot_bytes = 0;  // bytes of a message at most, a multiple of 64
  friend bool operator==(const LinkShape&, const LinkShape&) = default;
};

// Names a transfer from or into memory of the caller's, per link end, counting up from 1.
using Ticket = uint64_t;

// What a link can do without copying; the executor chooses the calls accordingly.
struct LinkTraits {
  bool send_in_place = false;  // reserve() gives memory that the receiver reads: no copy to fill it
  bool send_from_memory = false;  // send() is supported and saves a copy
  bool recv_into_memory = false;  // post() is supported and saves a copy
};

// The sending end. Invariants: messages arrive whole, in order, exactly once, with their tag; at
// most `slots` of them are committed or sent and not yet released by the receiver, or more where
// they are much shorter than slots.
class SendLink {
 public:
  virtual ~SendLink() = default;

  // The next slot's memory (slot_bytes long), empty while there is no credit. Calling it again
  // without commit gives the same slot.
  virtual Bytes reserve() = 0;
  // Sends the first `bytes` (0 .. slot_bytes) of the reserved slot. REQUIRES: reserve() gave a
  // slot.
  virtual void commit(size_t bytes, uint64_t tag) = 0;

  // Sends from the caller's memory (at most slot_bytes), which must stay unchanged until done() or
  // Transport::abandon(). nullopt while there is no credit. REQUIRES: traits().send_from_memory.
  virtual std::optional<Ticket> send(ConstBytes memory, uint64_t tag) = 0;
  virtual bool done(Ticket ticket) = 0;

  // put(memory, offset, tag) writes memory that no CPU may touch, at most 1 GiB, to that offset in
  // what the receiver lends (RecvLink::lend), and sends an empty message with the tag: once that is
  // there, so is the data. done(), abandon() and nullopt are as for send(); nullopt also before
  // anything is lent. REQUIRES: Transport::register_device() took the memory.
  virtual std::optional<Ticket> put(ConstBytes, size_t, uint64_t) { return std::nullopt; }

  // Whether nothing committed or sent is left in this process, waiting for poll() or another call
  // to move it on. A sender that stops polling before then may leave its peer without data.
  virtual bool flushed() { return true; }

  virtual LinkTraits traits() const = 0;
  virtual const Status& status() const = 0;  // not ok: the link is dead, and says why
  LinkShape shape() const { return shape_; }

 protected:
  explicit SendLink(LinkShape shape) : shape_(shape) {}
  const LinkShape shape_;
};

struct Message {
  ConstBytes data;
  uint64_t tag = 0;
};

// The receiving end.
class RecvLink {
 public:
  virtual ~RecvLink() = default;

  // The oldest message not yet released, in place; nullptr while there is none. The same message is
  // given until release(). A message that goes to posted memory is never seen here.
  virtual const Message* peek() = 0;
  // Gives the slot back. REQUIRES: peek() gave a message.
  virtual void release() = 0;

  // Memory for the next message that is neither peeked at nor posted for; it must stay untouched
  // until done() or Transport::abandon(). nullopt where that message has already arrived in a slot
  // (use peek), or where too many posts are outstanding. REQUIRES: traits().recv_into_memory.
  virtual std::optional<Ticket> post(Bytes memory) = 0;
  // The message's length and tag once it is in the posted memory; asking once more is not allowed.
  // A message longer than the posted memory is an error of the link (Code::mismatch).
  struct Placed {
    size_t bytes = 0;
    uint64_t tag = 0;
  };
  virtual std::optional<Placed> done(Ticket ticket) = 0;

  // The sender may put() into this memory whenever it likes, until Transport::abandon(). Called
  // once. REQUIRES: Transport::register_device() took it.
  virtual void lend(Bytes) {}

  virtual LinkTraits traits() const = 0;
  // ok as long as a message that arrived whole before the peer was lost has not been taken.
  virtual const Status& status() const = 0;
  LinkShape shape() const { return shape_; }

 protected:
  explicit RecvLink(LinkShape shape) : shape_(shape) {}
  const LinkShape shape_;
};

// Memory of one rank, mapped here: zero when made, the same size on all ranks, 4096-byte aligned.
// What lies where is the engine's affair (engine/executor/window_layout.h).
struct Window {
  std::byte* memory = nullptr;  // nullptr until the peer's mapping has arrived
};

// Memory that a rank made for its peers to map (Transport::share). It outlives its transport where
// somebody holds it; all of it is unmapped here with the last holder, and its pages are given back
// when no peer has them mapped any more. Its calls may come from any thread.
class SharedMemory {
 public:
  virtual ~SharedMemory() = default;

  virtual Bytes bytes() const = 0;
  // From now on, on the pages of this part, this rank and its peers do not see each other's writes
  // any more; what is there now stays as it is for both. Threads may go on using the memory
  // meanwhile. REQUIRES: part is part of bytes().
  virtual Status detach(ConstBytes part) = 0;
  // Gives the pages back at once, though peers may still have them mapped: all see zeros.
  virtual void discard() = 0;
};

// A short message outside all links, for saying why; see Transport::tell().
enum class NoteKind : uint8_t {
  call,     // which collective call its teller is in
  group,    // which group of sends and receives it waits in
  failure,  // why its communicator has failed
};
inline constexpr size_t kNoteKinds = 3;
struct Note {
  Rank from = -1;
  NoteKind kind{};
  std::string text;
};
inline constexpr size_t kNoteBytesMax = 1024;

struct TransportConfig {
  Rank rank = 0;
  int size = 1;
  std::string job;         // equal on all ranks of a communicator, different for every other one
  Key key{};               // equal likewise; who does not have it is not let in
  bool encrypt = false;    // what passes over a network
  std::string host;        // ranks with equal hosts may share memory
  int local_rank = 0;      // among the ranks of its machine, by which they share out its devices
  std::string interfaces;  // Options::interfaces
  size_t window_bytes = 4 << 20;
  int streams = 1;  // connections per pair, where the medium has connections
  VerbsOptions verbs{};
};

class Transport {
 public:
  virtual ~Transport() = default;

  virtual std::string_view name() const = 0;
  // Where and how this rank is reached: opaque text for the same transport on the other ranks.
  virtual std::string address() const = 0;
  // All ranks' addresses, by rank; an empty one is a rank without this transport. Called once.
  virtual Status join(std::vector<std::string> addresses) = 0;
  // May we two talk? (After join; false for a rank itself.)
  virtual bool reaches(Rank peer) const = 0;

  // The end of link (here, peer, id) or (peer, here, id). Opening again gives the same end. The
  // shape must be the same on both ends and in every call, else the link is dead and its status
  // says so (Code::mismatch). REQUIRES: reaches(peer). The reference stays valid as long as the
  // transport; a failure to open is found in the link's status.
  virtual SendLink& open_send(Rank peer, LinkId id, LinkShape shape) = 0;
  virtual RecvLink& open_recv(Rank peer, LinkId id, LinkShape shape) = 0;

  // Whether open_window() gives windows (of every rank that this transport reaches).
  virtual bool has_windows() const { return false; }
  // The window of `peer`, or of this rank itself; nullptr where the medium shares no memory.
  // Its memory is filled in once the peer has answered.
  virtual const Window* open_window(Rank peer) = 0;
  // Makes the first pages of this rank's window now, near its CPU, rather than one by one when they
  // are written; what is there stays. Does nothing where that is not possible.
  virtual void fill_window(size_t) {}

  // Whether share() is there. Then every rank that has_windows() reaches maps what is shared.
  virtual bool shares_memory() const { return false; }
  // Makes memory, zeroed, that every peer maps when it hears of it; `number` names it among this
  // rank's, each number is used once.
  virtual Result<std::shared_ptr<SharedMemory>> share(uint32_t, size_t) {
    return unsupported("this transport shares no memory");
  }
  // Peers unmap it when they hear of it. REQUIRES: no peer uses it.
  virtual void unshare(uint32_t) {}
  // What a peer shared: empty until it has come, an error where it cannot be mapped.
  virtual Result<Bytes> shared_by(Rank, uint32_t) { return Bytes{}; }

  // Whether this rank can read the memory of peer's process, as read_memory() does; nullopt until
  // the two are connected, which they are once the peer's window is mapped.
  virtual std::optional<bool> reads_memory(Rank) const { return false; }
  // Whether peers that can read this process's memory can read this, too. Looks at both ends of it
  // only: what is not there between them is found by who reads it. Of no bytes: whether they still
  // can, and whether this process can read theirs; that may end, as where it changes its user.
  virtual bool is_readable(ConstBytes) const { return false; }
  // Copies from peer's memory, by its address there, while the peer leaves that as it is. False:
  // the peer has ended, or has called abandon(), so that its memory may be used for something else,
  // and what came counts for nothing. An error (Code::invalid_argument) where not all of it is
  // there. REQUIRES: reads_memory(peer)
  virtual Result<bool> read_memory(Rank, uint64_t, Bytes) {
    return unsupported(std::string(name()) + " reads no memory of peers");
  }

  // Moves everything along that links do not move by themselves: connections being made, deaths,
  // notes. Cheap, but a system call or more: for when there is nothing better to do.
  virtual void poll() = 0;
  // Sleeps until a peer sent or wrote something, or the deadline, or wake_self(); may return early.
  virtual void wait(const Deadline& deadline) = 0;
  // After writing to window memory that `peer` may be waiting for in wait().
  virtual void wake(Rank peer) = 0;
  // Where ranks share cores, each says when it lets go of its core, to sleep or to let others run,
  // and when it has it again.
  virtual void set_running(bool) {}
  // Whether `peer` is known to have a core, so that what it is to send may come any moment. A hint:
  // it may have lost it, be computing something else, or not say such things.
  virtual bool running(Rank) const { return false; }
  // Whether `peer` had the same CPU as this rank when both last said that they run: as long as
  // this one keeps it, it does nothing. A hint, too.
  virtual bool shares_cpu(Rank) const { return false; }
  // Ends a wait() of this transport; the only call allowed from any thread at any time.
  virtual void wake_self() = 0;

  // Ends all traffic that touches callers' memory: after it returns, nothing that was posted or
  // sent from memory is read or written any more, nor taken for good that a peer reads of it. Links
  // that had such traffic are broken: their status says so, and they carry nothing more. No peer
  // takes part of a message for one, and notes still go where they can. Called once a communicator
  // has failed; destroying a transport does the same.
  virtual void abandon() = 0;
  // Whether a device is told of callers' memory, which it must be told to forget, too.
  virtual bool registers_memory() const { return false; }
  // Callers' memory of transfers that are done() may be freed from now on: what a device was told
  // of it is forgotten. Called once a call has ended, where registers_memory().
  virtual void forget_memory() {}
  // register_device(memory, descriptor) takes memory of a GPU's by the descriptor of its dma-buf,
  // which the caller closes, so that links put() from it and lend() it. It has to stay until this
  // transport goes or unregister_device(memory). REQUIRES there: no link has used or lent it.
  virtual Status register_device(Bytes, int) {
    return unsupported(std::string(name()) + " takes no memory of GPUs");
  }
  virtual void unregister_device(Bytes) {}

  // Dropped where the two are not connected. Else one note of each kind is under way at a time,
  // until the peer has taken it by hear(); the next one waits here, and a newer one takes its
  // place. So queues are short on both ends, no kind keeps another back (one may overtake another),
  // and while the two stay connected and poll, the newest of each kind arrives, once. A note that
  // does not have to wait goes to the medium at once, behind what links have sent there (over verbs
  // notes go another way than links' messages, and may overtake them); from there it arrives even
  // where its teller never polls again.
  virtual void tell(Rank peer, NoteKind kind, std::string_view text) = 0;
  virtual std::optional<Note> hear() = 0;
  // Whether anything was opened to or by this peer: else no notes pass between the two.
  virtual bool acquainted(Rank) const { return true; }

  // ok, or why this peer cannot be reached any more (Code::peer_lost, peer() == peer).
  virtual Status peer_status(Rank peer) const = 0;
  // For how many seconds this peer's host, whatever the peer does, has acknowledged nothing of what
  // was sent to it, nor taken a connection; 0 where all is acknowledged, or the medium cannot lose
  // anything.
  virtual double silence_s(Rank) const { return 0; }

  virtual const Clock& clock() const { return steady_clock(); }
};

}  // namespace weft
