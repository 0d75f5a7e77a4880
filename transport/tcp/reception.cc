#include "transport/tcp/reception.h"

#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/process_wide.h"
#include "base/text.h"
#include "transport/tcp/liveness.h"

namespace weft::tcp {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
constexpr double kAcceptAgain_s = 0.1;
constexpr int kCallersAtOnce = 64;

// A caller that has not said who it is. All of the process are counted: they share its descriptors,
// whichever communicator they have called.
class Silent {
 public:
  Silent() { ++ProcessWide<Callers>()->silent; }
  ~Silent() { --ProcessWide<Callers>()->silent; }
  Silent(const Silent&) = delete;
  Silent& operator=(const Silent&) = delete;
  static size_t count() { return ProcessWide<Callers>()->silent; }

 private:
  struct Callers {
    size_t silent = 0;
  };
};

// How many callers may be silent at a time.
size_t silent_max() {
  rlimit descriptors{};
  if (::getrlimit(RLIMIT_NOFILE, &descriptors) != 0) return 16;
  return std::clamp<size_t>(descriptors.rlim_cur / 4, 16, 1024);
}

int64_t in_ns(double seconds) {
  return steady_clock().now_ns() + static_cast<int64_t>(seconds * 1e9);
}

}  // namespace

class Reception::Listener final : public Pollable {
 public:
  explicit Listener(Reception& reception) : reception_(reception), socket_(reception.hub_.poller) {}
  Status watch(Fd socket) { return socket_.watch(std::move(socket), *this); }

  // So many at a time: who calls without end does not keep the rank here.
  void ready(uint32_t) override {
    for (int i = 0; i < kCallersAtOnce; ++i) {
      Result<Fd> caller = accept_from(socket_.fd());
      if (!caller.ok()) return reception_.cannot_accept(caller.status());
      if (!caller->valid()) return;
      reception_.accept_failed_ = false;
      reception_.enter(caller.take());
    }
    reception_.accept_again_ns_ = 0;  // at the next tick
  }

 private:
  Reception& reception_;
  WatchedFd socket_;
};

// Says the challenge, reads the hello, answers, reads the start frame.
class Reception::Guest final : public Pollable {
 public:
  Guest(Reception& reception, SocketAddress remote)
      : reception_(reception),
        socket_(reception.hub_.poller),
        remote_(remote),
        due_ns_(in_ns(reception.hub_.times.answer)) {}

  Status welcome(Fd socket) {
    challenge_.nonce = fresh_nonce();
    const ChallengeBytes bytes = encode(challenge_);
    const ssize_t sent = ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    WEFT_TRY(socket_.watch(std::move(socket), *this));
    if (sent == static_cast<ssize_t>(bytes.size())) return {};
    return Status(Code::system, "it hung up at once");
  }
  void hang_up() {
    socket_.reset();
    silent_.reset();
  }

  const SocketAddress& remote() const { return remote_; }
  const Hello& hello() const { return hello_; }
  bool admitted() const { return admitted_; }
  int64_t due_ns() const { return due_ns_; }

  void ready(uint32_t) override {
    if (socket_.valid() && !admitted_ && fill(kHelloBytes)) greet();
    if (socket_.valid() && admitted_ && fill(kFrameBytes)) begin();
  }

 private:
  // True once `bytes` of them are there; a caller that cannot be weft is turned away.
  bool fill(size_t bytes) {
    while (filled_ < bytes) {
      const ssize_t got = ::recv(socket_.get(), buffer_.data() + filled_, bytes - filled_, 0);
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
      if (got <= 0) {
        // Without a word: a call that has crossed ours, or a port scan.
        const bool silent = admitted_ || filled_ == 0;
        reception_.turn_away(*this, silent ? "" : "it hung up before it had said who it is");
        return false;
      }
      filled_ += static_cast<size_t>(got);
      if (!admitted_ && !may_be_hello(ConstBytes(buffer_).first(filled_))) {
        reception_.turn_away(*this, "it does not speak weft's protocol");
        return false;
      }
    }
    return true;
  }

  void greet() {
    filled_ = 0;
    const std::optional<Hello> hello = decode_hello(buffer_);
    if (!hello) return reception_.turn_away(*this, "it does not speak weft's protocol");
    hello_ = *hello;
    const Answer answer = judge();
    const AnswerBytes bytes = encode(answer, badge().key, challenge_, hello_);
    const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (answer != Answer::welcome) return refuse(answer);
    if (sent != static_cast<ssize_t>(bytes.size())) return reception_.turn_away(*this, "");
    reception_.dismiss(hello_.from, hello_.stream);
    keep_alive(socket_.fd(), kConnected);  // nobody else is called or waited for in its place
    admitted_ = true;
    silent_.reset();
  }

  const Badge& badge() const { return reception_.hub_.badge; }

  // Only who has proven to be of the job gets to the host.
  Answer judge() {
    if (hello_.version != kVersion) return Answer::other_version;
    if (hello_.job != badge().job) return Answer::other_job;
    if (!proves(buffer_, badge().key, challenge_)) return Answer::unproven;
    return reception_.host_.admit(hello_);
  }

  void refuse(Answer answer) {
    const bool usual = is_proven(answer);
    const std::string who =
        hello_.version == kVersion
            ? "as rank " + std::to_string(hello_.from) + " for rank " + std::to_string(hello_.to)
            : "with protocol version " + std::to_string(hello_.version) + " (this is " +
                  std::to_string(kVersion) + ")";
    reception_.turn_away(*this, usual ? "" : "it called " + who + ": " + reason(answer));
  }

  static std::string reason(Answer answer) {
    if (answer == Answer::other_job) return "that is another job";
    if (answer == Answer::other_rank) return "there is no such pair of ranks here";
    if (answer == Answer::unproven) return "it does not have this job's secret (WEFT_SECRET)";
    return "all ranks need the same version of weft";
  }

  void begin() {
    const std::optional<Frame> frame =
        decode_frame(std::span<const std::byte>(buffer_).first<kFrameBytes>());
    if (!frame || frame->kind != FrameKind::start)
      return reception_.turn_away(*this, "it did not begin with a start frame");
    Connection connection{socket_.take(), remote_, false,
                          binding_of(badge().key, challenge_, hello_)};
    Reception& reception = reception_;
    reception.bury(reception.remove(*this));
    reception.host_.arrived(hello_, std::move(connection));
  }

  Reception& reception_;
  WatchedFd socket_;
  const SocketAddress remote_;
  const int64_t due_ns_;
  Challenge challenge_;
  HelloBytes buffer_{};  // the start frame is shorter
  size_t filled_ = 0;
  Hello hello_;
  bool admitted_ = false;
  std::optional<Silent> silent_{std::in_place};
};

Reception::Reception(Hub& hub, Host& host) : hub_(hub), host_(host), silent_max_(silent_max()) {}
Reception::~Reception() = default;

Status Reception::open(const std::vector<SocketAddress>& addresses) {
  std::string failures;
  for (const SocketAddress& address : addresses) {
    const Status status = listen(address);
    if (status.ok()) continue;
    failures.append(failures.empty() ? "" : "; ").append(status.message());
    log_line(LogLevel::warning, hub_.rank,
             "Left out an address that cannot be listened at (" + std::string(status.message()) +
                 "); other ranks use the others.");
  }
  if (!listeners_.empty()) return {};
  return Status(Code::system, concat("No address of this host can be listened at: ", failures,
                                     ". Name other interfaces (", kInterfacesSetting, ")."));
}

Status Reception::listen(const SocketAddress& address) {
  Result<Fd> socket = listen_on(address);
  if (!socket.ok()) return socket.status();
  set_pacing(*socket, Pacing::none);
  const Result<SocketAddress> local = local_address(*socket);
  if (!local.ok()) return local.status();
  auto listener = std::make_unique<Listener>(*this);
  WEFT_TRY(listener->watch(socket.take()));
  addresses_.push_back(*local);
  listeners_.push_back(std::move(listener));
  return {};
}

void Reception::enter(Fd socket) {
  const Result<SocketAddress> remote = peer_address(socket);
  if (!remote.ok()) return;  // gone already
  make_room();
  guests_.push_back(std::make_unique<Guest>(*this, *remote));
  Guest& guest = *guests_.back();
  if (const Status welcomed = guest.welcome(std::move(socket)); !welcomed.ok())
    turn_away(guest, welcomed.message());
}

void Reception::make_room() {
  if (Silent::count() < silent_max_) return;
  const auto silent = [](const auto& guest) { return !guest->admitted(); };
  const auto oldest = std::find_if(guests_.begin(), guests_.end(), silent);
  if (oldest != guests_.end()) turn_away(**oldest, "too many callers are silent");
}

// For want of descriptors, mostly: the caller stays in the system's queue. Told once each time that
// it begins; who calls a rank with few descriptors can bring that about again and again.
void Reception::cannot_accept(const Status& why) {
  accept_again_ns_ = in_ns(kAcceptAgain_s);
  if (std::exchange(accept_failed_, true) || !accept_failures_.next()) return;
  log_line(LogLevel::warning, hub_.rank,
           concat("Cannot accept a connection: ", why.message(), "; trying on.",
                  accept_failures_.place()));
}

bool Reception::expects(Rank from, uint32_t stream) const {
  return std::any_of(guests_.begin(), guests_.end(), [&](const auto& guest) {
    return guest->admitted() && guest->hello().from == from && guest->hello().stream == stream;
  });
}

void Reception::dismiss(Rank from, uint32_t stream) {
  for (size_t i = 0; i < guests_.size();) {
    Guest& guest = *guests_[i];
    const Hello& hello = guest.hello();
    if (guest.admitted() && hello.from == from && hello.stream == stream)
      bury(remove(guest));
    else
      ++i;
  }
}

void Reception::turn_away(Guest& guest, std::string_view why) {
  if (!why.empty()) report(guest, why);
  const bool admitted = guest.admitted();
  const Hello hello = guest.hello();
  bury(remove(guest));
  if (admitted) host_.left(hello);
}

void Reception::report(const Guest& guest, std::string_view why) {
  if (!refused_.next()) return;
  log_line(LogLevel::warning, hub_.rank,
           concat("Refused a connection from ", guest.remote().to_string(), ": ", why,
                  ". The job goes on.", refused_.place()));
}

std::unique_ptr<Reception::Guest> Reception::remove(Guest& guest) {
  const auto at = std::find_if(guests_.begin(), guests_.end(),
                               [&](const auto& other) { return other.get() == &guest; });
  std::unique_ptr<Guest> removed = std::move(*at);
  guests_.erase(at);
  return removed;
}

// Its events may be under way, and one of its functions: it goes at the next round.
void Reception::bury(std::unique_ptr<Guest> guest) {
  guest->hang_up();
  hub_.poller.bury(std::move(guest));
}

void Reception::tick(int64_t now_ns) {
  if (now_ns >= accept_again_ns_) {
    accept_again_ns_ = kNever;
    for (const auto& listener : listeners_) listener->ready(0);
  }
  for (size_t i = 0; i < guests_.size();) {
    Guest& guest = *guests_[i];
    if (now_ns >= guest.due_ns() && !guest.admitted())
      turn_away(guest, "it did not say who it is");
    else
      ++i;
  }
}

int64_t Reception::due_ns() const {
  int64_t due = accept_again_ns_;
  for (const auto& guest : guests_)
    if (!guest->admitted()) due = std::min(due, guest->due_ns());
  return due;
}

}  // namespace weft::tcp
