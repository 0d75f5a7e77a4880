#include "transport/tcp/dial.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "base/text.h"
#include "transport/tcp/liveness.h"

namespace weft::tcp {
namespace {

// Until it says hello a caller has sent nothing that would have to be acknowledged, so that only
// signs of life tell a cut cable from a peer that is busy.
constexpr SignsOfLife kCalling{.idle = 1, .between = 1, .unanswered = 30};

Status said(std::string_view what) { return Status(Code::system, std::string(what)); }

Status gone() {
  return Status(Code::peer_lost,
                "has closed its communicator or ended, or it has taken this rank for lost");
}

}  // namespace

Dial::Dial(Hub& hub, const Hello& hello, std::vector<SocketAddress> candidates, Connected connected)
    : hub_(hub),
      hello_(hello),
      candidates_(std::move(candidates)),
      tell_(std::move(connected)),
      socket_(hub.poller),
      pause_s_(hub.times.retry),
      began_ns_(steady_clock().now_ns()),
      reacted_ns_(began_ns_) {}

int64_t Dial::in_ns(double seconds) const {
  return steady_clock().now_ns() + static_cast<int64_t>(seconds * 1e9);
}

// A refusal is no reaction: it may be of this rank's own host, which has such an address, too (that
// of the loopback, or of a bridge for containers).
double Dial::silent_s() const {
  if (state_ == State::listening || state_ == State::spoken) return owing_s(socket_.fd());
  if (state_ == State::over) return 0;
  return static_cast<double>(steady_clock().now_ns() - reacted_ns_) * 1e-9;
}

// Before a call is given up: the host of one that was taken may have reacted all the time.
void Dial::drop() {
  if (state_ == State::listening || state_ == State::spoken) reacted_ns_ = in_ns(-silent_s());
  socket_.reset();
  state_ = State::pausing;
}

void Dial::tick(int64_t now_ns) {
  if (now_ns < due_ns_ || state_ == State::over) return;
  if (state_ == State::pausing) return start();
  failed(
      said(state_ == State::connecting ? "it does not react" : "it accepts but does not answer"));
}

void Dial::start() {
  const SocketAddress& address = candidates_[at_];
  Result<Fd> socket = start_connect(address, Pacing::none);
  if (!socket.ok() && lacks_descriptors())  // socket(2)'s; waiting does not help
    return give_up(said(concat("cannot be connected to: ", socket.status().message())));
  if (!socket.ok()) return failed(socket.status());
  state_ = State::connecting;
  due_ns_ = in_ns(hub_.times.connect);
  if (const Status watched = socket_.watch(socket.take(), *this); !watched.ok()) failed(watched);
}

void Dial::ready(uint32_t events) {
  if (!socket_.valid()) return;
  if (state_ == State::connecting && (events & (EPOLLOUT | EPOLLERR | EPOLLHUP))) {
    if (const Status status = connect_error(socket_.fd()); !status.ok()) return failed(status);
    connected();
  }
  if (state_ == State::listening && fill(challenge_bytes_)) speak();
  if (state_ == State::spoken && fill(answer_)) read_answer();
}

void Dial::connected() {
  state_ = State::listening;
  filled_ = 0;
  due_ns_ = in_ns(hub_.times.answer);
  keep_alive(socket_.fd(), kCalling);
}

bool Dial::fill(Bytes whole) {
  while (filled_ < whole.size()) {
    const ssize_t got = ::recv(socket_.get(), &whole[filled_], whole.size() - filled_, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (got <= 0) return failed(said("it hung up instead of answering")), false;
    filled_ += static_cast<size_t>(got);
  }
  return true;
}

void Dial::speak() {
  const std::optional<Challenge> challenge = decode_challenge(challenge_bytes_);
  if (!challenge) return failed(said("what listens there is not weft"));
  if (challenge->version != kVersion) return failed(said(text(Answer::other_version)));
  challenge_ = *challenge;
  hello_.nonce = fresh_nonce();
  const HelloBytes bytes = encode(hello_, hub_.badge.key, challenge_);
  const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (sent != static_cast<ssize_t>(bytes.size())) return failed(said("it hung up at once"));
  state_ = State::spoken;
  filled_ = 0;
  due_ns_ = in_ns(hub_.times.answer);
}

// What is not proven may be anybody's: it is worth another try, no more.
void Dial::read_answer() {
  const std::optional<Answer> answer = decode_answer(answer_);
  if (!answer) return failed(said("what listens there is not weft"));
  if (is_proven(*answer) && !proves(answer_, hub_.badge.key, challenge_, hello_))
    return failed(said("it does not prove that it belongs to this job"));
  answered(*answer);
}

void Dial::answered(Answer answer) {
  if (answer != Answer::welcome) {
    // It is the right rank, and calls us: its connection will come; if not, we call again.
    if (answer == Answer::crossed || answer == Answer::connected) {
      gone_.reset();
      return pause();
    }
    return answer == Answer::closed ? refused() : failed(said(text(answer)));
  }
  const FrameHeader start = encode(Frame{});
  const ssize_t sent = ::send(socket_.get(), start.data(), start.size(), MSG_NOSIGNAL);
  if (sent != static_cast<ssize_t>(start.size()))
    return failed(said("it hung up after its welcome"));
  state_ = State::over;
  tell_(Connection{socket_.take(), candidates_[at_], true,
                   binding_of(hub_.badge.key, challenge_, hello_)});
}

void Dial::failed(const Status& why) {
  const double tried_s = static_cast<double>(steady_clock().now_ns() - began_ns_) * 1e-9;
  const bool patient = tried_s < warn_after_s_;
  if (!patient) warn_after_s_ = tried_s * 2;
  log_line(patient ? LogLevel::debug : LogLevel::warning, hub_.rank,
           "Cannot connect to rank " + std::to_string(hello_.to) + " at " +
               candidates_[at_].to_string() + ": " + std::string(why.message()) + "; trying on.");
  if (why.code() == Code::peer_lost) ++refusals_;
  if (++at_ == candidates_.size()) {
    if (refusals_ == at_) return refused();
    gone_.reset();
    at_ = refusals_ = 0;
    return pause();
  }
  drop();
  due_ns_ = 0;  // at the next tick
}

// The peer's addresses come from its listeners: that all of them refuse means that it is gone, but
// once might be a host that is short of something. And who is gone may have left because of another
// rank's loss. It told those whom it was connected with; this rank is to find that loss itself,
// before it blames who left.
void Dial::refused() {
  if (!gone_) gone_ = Deadline::after(hub_.times.gone);
  if (gone_->expired()) return give_up(gone());
  at_ = refusals_ = 0;
  pause();
}

void Dial::give_up(Status why) {
  state_ = State::over;
  tell_(std::move(why));
}

void Dial::pause() {
  drop();
  due_ns_ = in_ns(pause_s_);
  pause_s_ = std::min(pause_s_ * 2, hub_.times.retry_max);
}

}  // namespace weft::tcp
