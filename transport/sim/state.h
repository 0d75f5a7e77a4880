// All of a simulated net behind one mutex; links and transports are thin handles on it.
//
// Invariants:
// 1. Every public call takes the mutex and first lets happen what is due; events run under it.
// 2. The caller's memory is touched only while its ticket is not done, its end is open and not
//    abandoned, and the peer is not lost: on a loss every ticket of a send is done, and nothing is
//    placed any more.
// 3. Slots and windows live as long as the net; what a rank may touch outside the mutex it was
//    given by a call under the mutex.
#pragma once

#include <condition_variable>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "transport/notes.h"
#include "transport/sim/channel.h"
#include "transport/sim/timeline.h"

namespace weft::sim {

class State {
 public:
  State(int size, const SimOptions& options);

  int size() const { return static_cast<int>(ranks_.size()); }
  const SimOptions& options() const { return options_; }
  const Clock& clock() const { return timeline_.clock(); }

  Status enter(const TransportConfig& config);
  void leave(Rank rank);
  void kill(Rank rank);
  void cut(Rank a, Rank b);
  void slow(Rank rank, int factor);
  uint64_t arrivals();

  void poll();
  void wait(Rank me, const Deadline& deadline);
  void ring(Rank rank);
  void abandon(Rank rank);
  void tell(Rank from, Rank to, NoteKind kind, std::string_view text);
  std::optional<Note> hear(Rank me);
  Status peer_status(Rank me, Rank peer);
  // nullptr until `me`, which first asked at the time given, may know it.
  std::byte* window(Rank me, Rank peer, int64_t asked_ns);
  bool read(Rank me, Rank peer, const std::byte* memory, Bytes into);

  Channel& open(Rank from, Rank to, LinkId id, LinkShape shape, bool sends);

  Bytes reserve(Channel& channel);
  void commit(Channel& channel, size_t bytes, uint64_t tag);
  std::optional<Ticket> send(Channel& channel, ConstBytes memory, uint64_t tag);
  bool sent(Channel& channel, Ticket ticket);
  Status send_status(Channel& channel);

  std::optional<Message> peek(Channel& channel);
  void release(Channel& channel);
  std::optional<Ticket> post(Channel& channel, Bytes memory);
  std::optional<RecvLink::Placed> placed(Channel& channel, Ticket ticket);
  Status recv_status(Channel& channel);

 private:
  struct FreeMemory {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  struct RankState {
    explicit RankState(size_t ranks) : lost(ranks), cut(ranks, false) {}
    bool entered = false;
    bool left = false;
    bool withdrawn = false;  // its callers' memory
    int slowness = 1;
    bool rung = false;  // something happened since the last wait
    std::condition_variable bell;
    std::deque<Note> notes;
    std::map<Rank, NotesOut> telling;  // by who is told
    std::vector<Status> lost;          // by peer: why it is lost, as far as this rank has noticed
    std::vector<bool> cut;             // by peer: nothing arrives between the two
    std::unique_ptr<std::byte, FreeMemory> window;
  };

  // Locks, and lets happen what is due.
  std::unique_lock<std::mutex> lock();
  RankState& at(Rank rank) { return *ranks_[static_cast<size_t>(rank)]; }
  static size_t index(Rank rank) { return static_cast<size_t>(rank); }
  // Now plus a random while, longer for slow ranks.
  int64_t soon(Rank a, Rank b);
  // An event between two ranks; if they sleep, they look again how long they may.
  void later(Rank a, Rank b, int64_t due_ns, std::function<void()> act);
  void ring_locked(Rank rank);
  void send_notes(Rank from, Rank to);
  void notice(Rank at_rank, Rank peer, int64_t due_ns, std::string why);
  void cut_locked(Rank a, Rank b, const std::string& why_a, const std::string& why_b);
  void connect(Channel& channel);
  bool dead(const Channel& channel, Rank end);
  void abandon_sends(Channel& channel);
  void abandon_posts(Channel& channel);
  size_t take_slot(Channel& channel);
  void dispatch(Channel& channel, const Flight& flight);
  void arrive(Channel& channel, Flight flight);
  void place(Channel& channel, const Post& post, const Flight& flight);
  void free_slot(Channel& channel, size_t slot);

  const SimOptions options_;
  std::mutex mutex_;
  Timeline timeline_;
  std::vector<std::unique_ptr<RankState>> ranks_;
  std::map<std::tuple<Rank, Rank, LinkId>, Channel> channels_;  // references stay valid
  uint64_t arrivals_ = 0;
};

}  // namespace weft::sim
