// Shared memory between ranks of one host, threads or processes. Messages travel through rings in
// memory (ring.h, links.h); everything else, from handing the memory over to noticing a death,
// through one Unix socket per pair of ranks that have something to do with each other (pair.h).
#pragma once

#include <sys/prctl.h>

#include <bitset>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "transport/notes.h"
#include "transport/shm/address.h"
#include "transport/shm/home.h"
#include "transport/shm/links.h"
#include "transport/shm/pair.h"
#include "transport/shm/process_memory.h"
#include "transport/transport.h"

namespace weft::shm {

inline constexpr size_t kPage = 4096;  // a home's first one holds a Home, the others the window

class ShmTransport final : public Transport {
 public:
  static Result<std::unique_ptr<Transport>> make(const TransportConfig& config);
  ~ShmTransport() override;

  std::string_view name() const override { return "shm"; }
  std::string address() const override;
  Status join(std::vector<std::string> addresses) override;
  bool reaches(Rank peer) const override;

  SendLink& open_send(Rank peer, LinkId id, LinkShape shape) override;
  RecvLink& open_recv(Rank peer, LinkId id, LinkShape shape) override;
  bool has_windows() const override { return true; }
  const Window* open_window(Rank peer) override;
  void fill_window(size_t bytes) override;
  bool shares_memory() const override { return true; }
  Result<std::shared_ptr<SharedMemory>> share(uint32_t number, size_t bytes) override;
  void unshare(uint32_t number) override;
  Result<Bytes> shared_by(Rank peer, uint32_t number) override;

  std::optional<bool> reads_memory(Rank peer) const override;
  bool is_readable(ConstBytes memory) const override;
  Result<bool> read_memory(Rank peer, uint64_t address, Bytes into) override;

  void poll() override;
  void wait(const Deadline& deadline) override;
  void wake(Rank peer) override;
  void wake_self() override;
  void set_running(bool running) override;
  bool running(Rank peer) const override;
  bool shares_cpu(Rank peer) const override;

  // Links move nothing by themselves and know no memory of callers; but peers may read that. A
  // forked child has no say in it.
  void abandon() override {
    if (context_.process.here()) own_home().memory.withdraw();
  }
  void tell(Rank peer, NoteKind kind, std::string_view text) override;
  std::optional<Note> hear() override;
  bool acquainted(Rank peer) const override { return find(peer) != nullptr; }
  Status peer_status(Rank peer) const override;

 private:
  // A ring that came before this end was opened.
  struct Offer {
    LinkShape shape;
    std::shared_ptr<Segment> segment;
  };
  // A rank that something was opened for, or that called.
  struct Peer {
    Peer(const PairContext& context, Rank peer, SocketAddress address, Bell* unheard)
        : rank(peer), pair(context, peer, std::move(address)), bell(unheard) {}
    const Rank rank;
    Pair pair;
    std::shared_ptr<Segment> home;
    Bell* bell;                              // in its home, or one that nobody hears
    std::optional<ReadableProcess> process;  // whose memory can be read
    Window window;
    std::map<LinkId, ShmSendLink> sends;
    std::map<LinkId, ShmRecvLink> recvs;
    std::map<LinkId, Offer> offers;
    std::map<uint32_t, Result<std::shared_ptr<Segment>>> memories;  // by number
    NotesOut notes;
    std::bitset<kNoteKinds> unread;  // notes of its that are in notes_
    bool unsettled = false;          // listed in unsettled_
    bool mourned = false;            // its links know that it is lost
  };

  explicit ShmTransport(const TransportConfig& config) : config_(config) {}
  Status start();
  size_t home_bytes() const;
  static Home& home_of(const Peer& peer) { return *reinterpret_cast<Home*>(peer.home->data()); }
  std::optional<ReadableProcess> readable(const Peer& peer, uint64_t home_there) const;
  Status not_read(const Peer& peer, uint64_t address, int error) const;
  Home& own_home() const { return *reinterpret_cast<Home*>(context_.home->data()); }

  Peer* find(Rank peer) const;  // nullptr where nothing was opened and it never called
  Peer& get(Rank peer);
  Peer& want(Rank peer);
  void settle(Peer& peer);

  bool heard() const;
  void accept_strangers();
  void refuse(std::string_view who);
  bool greet(Fd& stranger);
  void hear_peer(Peer& peer);
  void handle(Peer& peer, Incoming incoming);
  void take_note(Peer& peer, const Frame& frame);
  void take_heard(Peer& peer, const Frame& frame);
  void send_notes(Peer& peer);
  void take_home(Peer& peer, Incoming incoming);
  void take_ring(Peer& peer, const Frame& frame, std::shared_ptr<Segment> segment);
  void take_memory(Peer& peer, Incoming incoming);
  void tell_all(const Frame& frame, const std::shared_ptr<Segment>& segment);
  void take_bad_shape(Peer& peer, const Frame& frame);
  void match(Peer& peer, LinkId id, ShmSendLink& link, Offer offer);

  const TransportConfig config_;
  PairContext context_;
  Fd listener_;
  Address place_;                                  // as of start(), whatever this process becomes
  const int dumpable_ = ::prctl(PR_GET_DUMPABLE);  // before peers tried to read its memory
  Bell unheard_;
  Window window_;
  std::vector<SocketAddress> addresses_;  // by rank; empty for ranks that are not reached
  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<Rank> unsettled_;  // peers whose connection has something to try again
  std::vector<Fd> strangers_;    // accepted, hello not yet read
  Thinned refused_;
  std::deque<Note> notes_;
  int64_t nap_ns_ = 0;  // how long the next sleep may be
};

}  // namespace weft::shm
