#include "transport/shm/pair.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "base/text.h"

namespace weft::shm {
namespace {

constexpr int kRefusalsMax = 50;  // one or two are usual: invariant 2
constexpr double kGone_s = 0.5;

ConstBytes bytes_of(const Frame& frame) { return std::as_bytes(std::span(&frame, 1)); }
Bytes bytes_of(Frame& frame) { return std::as_writable_bytes(std::span(&frame, 1)); }

}  // namespace

void Frame::set_text(std::string_view from_text) {
  text_bytes = static_cast<uint32_t>(std::min(from_text.size(), text.size()));
  std::copy_n(from_text.begin(), text_bytes, text.begin());
}

Frame make_hello(const PairContext& context) {
  Frame hello;
  hello.from = context.rank;
  hello.set_text(context.job);
  return hello;
}

bool well_formed(const Frame& frame) {
  return frame.magic == Frame::kMagic && frame.text_bytes <= frame.text.size() &&
         frame.kind <= FrameKind::bye;
}

bool same_job(const PairContext& context, const Frame& hello) {
  return well_formed(hello) && hello.kind == FrameKind::hello &&
         hello.text_view() == make_hello(context).text_view();
}

bool is_foreign(const PairContext& context, const Fd& socket) {
  const Result<Process> peer = peer_process(socket);
  return !peer.ok() || (peer->user != context.user && peer->user != ::geteuid());
}

void Pair::close() {
  if (!socket_.valid()) return;
  flush();
  say_goodbye("");
  close_socket();
}

// Without it the end is taken for a death.
void Pair::say_goodbye(std::string_view why) {
  Frame bye;
  bye.kind = FrameKind::bye;
  bye.set_text(why);
  Outgoing out{bye, nullptr};
  static_cast<void>(send_now(out));
}

void Pair::want() {
  if (state_ != State::idle) return;
  state_ = State::wanted;
  connect();
}

void Pair::connect() {
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.valid())
    return lack(concat("cannot be connected to: ", std::strerror(errno),
                       "; raise the limit with ulimit -n."));
  if (::connect(socket.get(), address_.data(), address_.size()) != 0) {
    if (errno == EAGAIN || errno == EINTR) return;  // its queue is full: later
    return refused(errno);
  }
  gone_.reset();
  if (is_foreign(context_, socket))
    return lose("belongs to another user, and shares no memory with us.");
  if (!take_socket(std::move(socket))) return;
  Outgoing hello{make_hello(context_), nullptr};
  const Result<bool> sent = send_now(hello);
  if (sent.ok() && *sent)
    state_ = State::greeting;
  else
    close_socket();  // again later
}

// Nobody listens there any more. Who left may have done so because of another rank's loss, of which
// this one, which it never met, is to hear before it blames who left.
void Pair::refused(int error) {
  if (!gone_) gone_ = Deadline::after(kGone_s);
  if (!gone_->expired()) return;  // again later
  lose("has closed its communicator, perhaps because it failed, or has ended: connecting to " +
       address_.to_string() + " failed: " + std::strerror(error) + ".");
}

bool Pair::take_socket(Fd socket) {
  close_socket();
  socket_ = std::move(socket);
  const Result<Process> peer = peer_process(socket_);
  process_ = peer.ok() ? peer->id : 0;
  same_process_ = process_ == ::getpid();
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = static_cast<uint64_t>(peer_);
  if (::epoll_ctl(context_.epoll.get(), EPOLL_CTL_ADD, socket_.get(), &event) == 0) return true;
  lack(concat("cannot be watched: ", std::strerror(errno), "."));
  return false;
}

void Pair::accept(Fd socket) {
  const bool ours_counts = state_ == State::greeting && context_.rank < peer_;
  if (state_ == State::connected || state_ == State::lost || ours_counts) return;
  if (!take_socket(std::move(socket))) return;
  outbox_.push_front(home_frame());
  outbox_.push_front({make_hello(context_), nullptr});
  state_ = State::connected;
  flush();
}

Pair::Outgoing Pair::home_frame() const {
  Frame home;
  home.kind = FrameKind::home;
  home.address = reinterpret_cast<uint64_t>(context_.home->data());
  return {home, context_.home};
}

void Pair::send(Frame frame, std::shared_ptr<Segment> segment) {
  if (state_ == State::lost) return;
  outbox_.push_back({frame, std::move(segment)});
  flush();
}

void Pair::move_along() {
  if (state_ == State::wanted) connect();
  flush();
}

void Pair::flush() {
  while (sendable()) {
    const Result<bool> sent = send_now(outbox_.front());
    if (sent.ok() && !*sent) return;
    if (sent.status().code() == Code::peer_lost) return outbox_.clear();
    if (!sent.ok()) return lose("cannot be told anything: " + std::string(sent.status().message()));
    const std::shared_ptr<Segment>& segment = outbox_.front().segment;
    if (segment && outbox_.front().frame.kind == FrameKind::ring) segment->close_fd();
    outbox_.pop_front();
  }
}

Result<bool> Pair::send_now(Outgoing& out) {
  Frame& frame = out.frame;
  frame.from = context_.rank;
  if (out.segment) frame.segment_bytes = out.segment->size();
  if (out.segment && !same_process_)
    return send_with_fd(socket_, bytes_of(std::as_const(frame)), out.segment->fd().get());
  std::unique_ptr<std::shared_ptr<Segment>> given;
  if (out.segment) given = std::make_unique<std::shared_ptr<Segment>>(out.segment);
  frame.pointer = reinterpret_cast<uint64_t>(given.get());
  const Result<bool> sent = send_with_fd(socket_, bytes_of(std::as_const(frame)), -1);
  if (sent.ok() && *sent) static_cast<void>(given.release());  // now the receiver's
  return sent;
}

// False while there is none; the connection's end is dealt with.
bool Pair::read_frame(Frame& frame, Fd& fd) {
  // A peer that dies with unread frames leaves ECONNRESET first, and then what it had sent.
  for (int closed = 0; socket_.valid();) {
    Result<Received> got = recv_with_fd(socket_, bytes_of(frame));
    if (!got.ok()) {
      fail("cannot be heard: ", got.status());
    } else if (got->closed) {
      if (++closed == 2) ended();
    } else if (got->bytes == 0) {
      return false;
    } else if (got->bytes != sizeof frame || !well_formed(frame)) {
      lose("sent something that is no frame of this version of weft.");
    } else {
      fd = std::move(got->fd);
      return true;
    }
  }
  return false;
}

std::shared_ptr<Segment> Pair::take_segment(const Frame& frame, Fd fd) {
  if (same_process_) {
    const std::unique_ptr<std::shared_ptr<Segment>> given(
        reinterpret_cast<std::shared_ptr<Segment>*>(frame.pointer));
    return given ? *given : nullptr;
  }
  Result<std::shared_ptr<Segment>> mapped = Segment::map(std::move(fd), frame.segment_bytes);
  if (mapped.ok()) return mapped.take();
  fail("sent memory that cannot be used: ", mapped.status());
  return nullptr;
}

// Even in one process a mapping of its own, so that the owner can take its own one out of what is
// shared (SharedMemory::detach).
Result<std::shared_ptr<Segment>> Pair::take_memory(const Frame& frame, Fd fd) {
  if (!same_process_) return Segment::map(std::move(fd), frame.segment_bytes);
  const std::shared_ptr<Segment> given = take_segment(frame, Fd());
  if (!given) return internal_error("The shared memory announced did not come.");
  return Segment::map_again(*given);
}

bool Pair::check_hello(const Frame& frame) {
  if (same_job(context_, frame) && frame.from == peer_) return true;
  lose("is not who it says: rank " + std::to_string(frame.from) + " of job \"" +
       std::string(frame.text_view()) + "\" answered; was the address list mixed up?");
  return false;
}

std::optional<Incoming> Pair::receive() {
  Frame frame;
  Fd fd;
  while (read_frame(frame, fd)) {
    if (state_ == State::greeting) {
      if (!check_hello(frame)) continue;
      outbox_.push_front(home_frame());
      state_ = State::connected;
      flush();
      continue;
    }
    if (frame.kind == FrameKind::bye) {
      // Nothing follows, and the connection's end may be late: a child may have a copy.
      bye_ = frame.text_view();
      ended();
      return std::nullopt;
    }
    Incoming incoming{frame, nullptr};
    if (frame.kind == FrameKind::memory) {
      Result<std::shared_ptr<Segment>> mapped = take_memory(frame, std::move(fd));
      incoming.unmapped = mapped.status();
      if (mapped.ok()) incoming.segment = mapped.take();
    } else if (frame.segment_bytes > 0) {
      incoming.segment = take_segment(frame, std::move(fd));
      if (!incoming.segment) return std::nullopt;
    }
    return incoming;
  }
  return std::nullopt;
}

void Pair::ended() {
  if (state_ == State::greeting) {  // invariant 2
    close_socket();
    state_ = State::wanted;
    if (++refusals_ <= kRefusalsMax) return;
    // It may have called meanwhile, as it would rather.
    context_.accepting.ok() ? lose("refuses to be connected to.")
                            : fail("cannot be accepted: ", context_.accepting);
    return;
  }
  if (!bye_) return lose("died: its connection ended without a goodbye.");
  lose(bye_->empty() ? "closed its communicator." : concat("gave up its connection: ", *bye_));
}

void Pair::lose(std::string_view why) {
  end(Status(Code::peer_lost, concat("rank ", peer_, " ", why), peer_));
}

// This rank is short of something, which is no fault of the peer's: it hears of it, and this rank
// lives on.
void Pair::lack(std::string_view why) {
  const std::string text = concat("rank ", peer_, " ", why);
  if (state_ == State::connected) say_goodbye(text);
  end(Status(Code::system, text, context_.rank));
}

// What the system refuses, it refuses this rank.
void Pair::fail(std::string_view what, const Status& why) {
  const std::string text = concat(what, why.message());
  why.code() == Code::system ? lack(text) : lose(text);
}

void Pair::end(Status status) {
  if (state_ == State::lost) return;
  close_socket();
  state_ = State::lost;
  status_ = std::move(status);
  outbox_.clear();
}

void Pair::close_socket() {
  if (!socket_.valid()) return;
  // Not left to close(2): a forked child may hold a copy.
  ::epoll_ctl(context_.epoll.get(), EPOLL_CTL_DEL, socket_.get(), nullptr);
  if (same_process_) {  // invariant 4
    ::shutdown(socket_.get(), SHUT_RD);
    Frame frame;
    while (::recv(socket_.get(), &frame, sizeof frame, MSG_DONTWAIT) == sizeof frame)
      if (frame.segment_bytes > 0) take_segment(frame, Fd());
  }
  socket_.reset();
}

}  // namespace weft::shm
