// Media: the transports of one communicator, and which of them leads to which peer.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bootstrap/rendezvous.h"
#include "engine/executor/window_layout.h"
#include "transport/transport.h"

namespace weft {

class Media {
 public:
  static constexpr LinkShape kUsualLinks{8, 64 << 10};
  // Sockets get long messages. The memory of what is under way goes round in them, too, and where
  // that is less than a core's cache holds, each line is still in that of the core that had it last
  // (docs/experiments.md).
  static constexpr LinkShape kSocketLinks{4, 512 << 10};

  // Transports in order of preference, joined; links' shape where options name none, the same on
  // all ranks.
  Media(Rank me, int ranks, std::vector<std::unique_ptr<Transport>> transports, size_t window_bytes,
        LinkShape usual_links = kUsualLinks);

  Rank me() const { return me_; }
  int ranks() const { return ranks_; }

  // The transport that leads to `peer`; nullptr where none does.
  Transport* route(Rank peer) const { return routes_[peer]; }
  LinkShape usual_links() const { return usual_links_; }
  // Whether every rank's window can be mapped here (and the other way round).
  bool windows_everywhere() const { return windows_everywhere_; }
  const WindowLayout& window_layout() const { return window_layout_; }
  // The window of a peer or of this rank. REQUIRES: windows_everywhere().
  const Window* window(Rank rank) const;
  // See Transport::fill_window(). REQUIRES: windows_everywhere().
  void fill_window(size_t bytes) { transports_[0]->fill_window(bytes); }

  // Whether memory can be shared with all ranks: see Transport::share() and the following.
  bool shares_memory() const { return windows_everywhere_ && transports_[0]->shares_memory(); }
  // The transport that does. REQUIRES: shares_memory().
  Transport& sharing() const { return *transports_[0]; }

  // Whether this rank can read the memory of all others' processes: see Transport::reads_memory().
  // REQUIRES: windows_everywhere().
  std::optional<bool> reads_memory() const;
  bool is_readable(ConstBytes memory) const { return transports_[0]->is_readable(memory); }
  Result<bool> read_memory(Rank peer, uint64_t address, Bytes into) {
    return routes_[peer]->read_memory(peer, address, into);
  }

  // For all transports at once.
  void poll();
  void wait(const Deadline& deadline);  // bounded to a millisecond where there are several
  void wake_self();
  void wake(Rank peer) { routes_[peer]->wake(peer); }
  void set_running(bool running);
  // See Transport::running(); false for -1, too.
  bool running(Rank peer) const {
    return peer >= 0 && routes_[peer] && routes_[peer]->running(peer);
  }
  // See Transport::shares_cpu(). REQUIRES: a peer
  bool shares_cpu(Rank peer) const { return routes_[peer] && routes_[peer]->shares_cpu(peer); }
  void tell(Rank peer, NoteKind kind, std::string_view text);
  void abandon();  // see Transport::abandon()
  // See Transport::forget_memory(); on every call's way.
  void forget_memory() {
    for (Transport* const transport : registering_) transport->forget_memory();
  }
  std::optional<Note> hear();
  bool acquainted(Rank peer) const { return routes_[peer] && routes_[peer]->acquainted(peer); }
  Status peer_status(Rank peer) const;
  double silence_s(Rank peer) const;  // see Transport::silence_s()
  const Clock& clock() const;

  bool several() const { return transports_.size() > 1; }
  std::string names() const;  // "shm", "shm+tcp"

 private:
  Rank me_;
  int ranks_;
  std::vector<std::unique_ptr<Transport>> transports_;
  std::vector<Transport*> routes_;       // by rank; nullptr for oneself
  std::vector<Transport*> registering_;  // those that register memory
  bool windows_everywhere_ = false;
  WindowLayout window_layout_;
  LinkShape usual_links_;
};

}  // namespace weft
