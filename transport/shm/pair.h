// The Unix-socket connection of two ranks: it is made when either of them first wants it, carries
// frames (segments, notes, the goodbye), and its end is how a death is noticed.
//
// Invariants
//   1. Who wants the connection connects to the other's listening socket and sends a hello; the
//      other accepts, checks user, job and rank, and answers with its own hello. Only then either
//      end sends anything else.
//   2. When both connect at the same moment, the connection that the lower rank made counts: the
//      lower rank refuses the other one by closing it; the higher rank drops its own when the lower
//      one's arrives. A connection that ends before its handshake is made anew; only a refusal to
//      connect, or an end after the handshake, is a loss: a listening socket lives as long as its
//      transport.
//   3. A frame has a fixed size and is sent whole or not at all.
//   4. Between threads of one process a segment travels as a pointer to a shared_ptr that the
//      receiver takes over; whoever closes a connection first shuts it for reading, so that nothing
//      more is sent, and then takes over what is on its way. The kernel vouches for the process.
#pragma once

#include <sys/types.h>

#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/fd.h"
#include "base/origin_process.h"
#include "base/socket.h"
#include "base/status.h"
#include "transport/shm/segment.h"
#include "transport/transport.h"

namespace weft::shm {

enum class FrameKind : uint32_t {
  hello,      // text: the job
  home,       // segment: the sender's bell and window, and its address where the sender has it
  ring,       // segment: the receiving end of link `id` with its shape
  bad_shape,  // the sending end of link `id` has this shape, another one than the ring that came
  memory,     // segment: memory number `id` of the sender, for the receiver to map
  forget,     // memory number `id` is not used any more
  note,       // text, of NoteKind `id`
  heard,      // the last note of NoteKind `id` has been
  bye,        // the sender closes its transport, or this connection, and then text: why
};

struct Frame {
  static constexpr uint64_t kMagic = 0x34306d6873746677;  // the version, too
  uint64_t magic = kMagic;
  FrameKind kind = FrameKind::hello;
  Rank from = -1;
  LinkId id = 0;
  LinkShape shape;
  uint32_t text_bytes = 0;
  uint64_t segment_bytes = 0;  // 0: without a segment
  uint64_t pointer = 0;        // std::shared_ptr<Segment>*, inside a process
  uint64_t address = 0;        // in the sender's memory
  std::array<char, kNoteBytesMax> text{};

  std::string_view text_view() const { return {text.data(), text_bytes}; }
  void set_text(std::string_view from_text);  // cut at kNoteBytesMax
};

struct Incoming {
  Frame frame;
  std::shared_ptr<Segment> segment;
  Status unmapped = {};  // of a frame of kind memory: why it has no segment
};

// What all pairs of a transport have in common.
struct PairContext {
  OriginProcess process;
  uid_t user = ::geteuid();  // all ranks' when they started, as their addresses say
  Rank rank = 0;
  std::string job;
  Fd epoll;  // holds every pair's socket, with the peer's rank as data
  std::shared_ptr<Segment> home;
  Status accepting;  // why who called last could not be accepted; ok where it could
};

// The hello of this rank, and whether another one's is well-formed and of the same job.
Frame make_hello(const PairContext& context);
bool same_job(const PairContext& context, const Frame& hello);
bool well_formed(const Frame& frame);
// Whether the other end belongs to another user, who has no business here: neither the one that the
// ranks were when they started, nor who this one has become since.
bool is_foreign(const PairContext& context, const Fd& socket);

class Pair {
 public:
  Pair(const PairContext& context, Rank peer, SocketAddress address)
      : context_(context), peer_(peer), address_(address) {}
  // In a forked child the connection is only closed: it is still the parent's.
  ~Pair() {
    if (context_.process.here()) close();
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  // Says goodbye, if there is a connection. The last call.
  void close();
  // Makes the connection if it is neither there nor under way.
  void want();
  // The peer connected; its hello has been read and checked.
  void accept(Fd socket);
  // Queues a frame for when the connection is there. A ring's descriptor is closed once sent.
  void send(Frame frame, std::shared_ptr<Segment> segment = nullptr);
  // The next frame, hello excepted; nullopt while there is none, or after a loss.
  std::optional<Incoming> receive();
  // Tries again what did not go at once.
  void move_along();
  bool needs_moving() const { return state_ == State::wanted || sendable(); }

  bool connected() const { return state_ == State::connected; }
  pid_t process() const { return process_; }  // the peer's; 0: not known, or not to be seen here
  const Status& status() const { return status_; }  // not ok: the peer is lost
  // `why` goes on from "rank 3".
  void lose(std::string_view why);
  void lack(std::string_view why);
  void fail(std::string_view what, const Status& why);
  void end(Status status);

 private:
  enum class State { idle, wanted, greeting, connected, lost };
  struct Outgoing {
    Frame frame;
    std::shared_ptr<Segment> segment;
  };

  bool sendable() const { return state_ == State::connected && !outbox_.empty(); }
  void connect();
  void refused(int error);
  bool take_socket(Fd socket);
  Outgoing home_frame() const;
  bool check_hello(const Frame& frame);
  void flush();
  // False: later. Code::peer_lost: receive() finds the end, and what the peer said before it.
  Result<bool> send_now(Outgoing& out);
  bool read_frame(Frame& frame, Fd& fd);
  std::shared_ptr<Segment> take_segment(const Frame& frame, Fd fd);
  Result<std::shared_ptr<Segment>> take_memory(const Frame& frame, Fd fd);
  void ended();
  void say_goodbye(std::string_view why);
  void close_socket();

  const PairContext& context_;
  const Rank peer_;
  const SocketAddress address_;
  State state_ = State::idle;
  Fd socket_;
  pid_t process_ = 0;
  bool same_process_ = false;
  int refusals_ = 0;
  std::optional<Deadline> gone_;    // since nobody listens: when the peer counts as lost
  std::optional<std::string> bye_;  // the peer's goodbye: why, or nothing
  std::deque<Outgoing> outbox_;
  Status status_;
};

}  // namespace weft::shm
