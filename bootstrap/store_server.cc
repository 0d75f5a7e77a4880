#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

#include "base/log.h"
#include "base/text.h"
#include "bootstrap/caller.h"
#include "bootstrap/store.h"

namespace weft {
namespace {

constexpr size_t kGuests = 256;  // strangers served at a time
constexpr int kCallersAtOnce = 64;
constexpr double kFarewellSeconds = 1;         // for ranks that come while the job is failing
constexpr double kShortFarewellSeconds = 0.2;  // where this rank was told to end soon

// One connection. A guest has said nothing yet; a member has a rank; one who leaves is only sent
// what is queued, then closed.
struct Peer : Caller {
  enum class State { guest, member, leaving, gone };
  State state = State::guest;
  Rank rank = -1;
  uint64_t process = 0;
};

class StoreServer final : public Rendezvous {
 public:
  StoreServer(StoreConfig config, Fd listener, std::unique_ptr<Announcement> announcement)
      : config_(std::move(config)),
        door_{concat("rank ", config_.rank), config_.job,
              wire::meeting_key(config_.key, config_.job)},
        listener_(std::move(listener)),
        announcement_(std::move(announcement)) {}

  Rank rank() const override { return config_.rank; }
  int size() const override { return config_.size; }
  RendezvousStats stats() const override { return stats_; }
  Key key() const override { return config_.key; }

  Result<std::vector<std::string>> all_gather(std::string mine, const Deadline& deadline) override {
    if (!failure_.ok()) return failure_;
    WEFT_TRY(check_blob(mine));
    begin_round(std::move(mine));
    if (round_ == 0) failure_ = announcement_->announce(deadline);
    while (failure_.ok() && missing_ > 0) {
      if (deadline.expired() || steady_clock().now_ns() >= answer_by_ns_)
        failure_ = nobody_came();
      else
        step(wait_ms(deadline));
    }
    if (failure_.ok()) answer(deadline);
    if (!failure_.ok()) {
      failure_ = ended(deadline, config_.rank, failure_);
      say_farewell();
      return failure_;
    }
    ++round_;
    return std::move(offers_);
  }

 private:
  void begin_round(std::string mine) {
    offers_.assign(static_cast<size_t>(config_.size), {});
    here_.assign(static_cast<size_t>(config_.size), false);
    offers_[static_cast<size_t>(config_.rank)] = std::move(mine);
    here_[static_cast<size_t>(config_.rank)] = true;
    missing_ = config_.size - 1;
    answer_by_ns_ = std::numeric_limits<int64_t>::max();
  }

  int wait_ms(const Deadline& deadline) const {
    const int64_t left = (answer_by_ns_ - steady_clock().now_ns()) / kMillisecond + 1;
    return deadline.left_ms(static_cast<int>(std::clamp<int64_t>(left, 0, 1000)));
  }

  bool awaited(const Peer& peer) const {
    if (peer.state == Peer::State::guest) return true;
    return peer.state == Peer::State::member && !here_[static_cast<size_t>(peer.rank)];
  }

  // Waits until somebody moves, and serves whoever did. A member that has said what it had to say
  // is watched for its death only.
  void step(int wait) {
    std::vector<pollfd> polled;
    polled.push_back({listener_.get(), POLLIN, 0});
    for (const auto& peer : peers_) {
      int events = awaited(*peer) ? POLLIN : POLLRDHUP;
      if (peer->connection.sending()) events |= POLLOUT;
      polled.push_back({peer->connection.socket().get(), static_cast<short>(events), 0});
    }
    if (::poll(polled.data(), polled.size(), wait) <= 0) return;
    for (size_t i = 1; i < polled.size(); ++i)
      if (polled[i].revents) serve(*peers_[i - 1], polled[i].revents);
    if (polled[0].revents) accept_all();
    std::erase_if(peers_, [](const auto& peer) { return peer->state == Peer::State::gone; });
  }

  // So many at a time: the others have their turn, too.
  void accept_all() {
    for (int i = 0; i < kCallersAtOnce; ++i) {
      Result<Fd> socket = accept_from(listener_);
      if (!socket.ok() && lose_oldest_guest()) continue;  // for want of descriptors, mostly
      if (!socket.ok()) cannot_accept(socket.status());
      if (!socket.ok() || !socket->valid()) break;
      auto peer = std::make_unique<Peer>();
      peer->connection = Connection(socket.take());
      const Result<SocketAddress> local = local_address(peer->connection.socket());
      const Result<Process> process = peer_process(peer->connection.socket());
      if (local.ok() && local->family() == AF_UNIX && process.ok() && process->user != ::geteuid())
        refuse(*peer, false, Status(Code::invalid_argument, "It belongs to another user."));
      else
        challenge(*peer);
      peers_.push_back(std::move(peer));
    }
    // Too many who say nothing: the one who has done so for longest must go.
    const auto limit = static_cast<ptrdiff_t>(kGuests + static_cast<size_t>(config_.size));
    while (std::count_if(peers_.begin(), peers_.end(), is_guest) > limit) lose_oldest_guest();
  }

  // Whoever waits can still be told, if what the announcement held is given back.
  void cannot_accept(const Status& why) {
    announcement_->withdraw();
    fail(Status(Code::system,
                concat("Rank ", config_.rank,
                       " cannot accept the other ranks' connections: ", why.message()),
                config_.rank));
  }

  static bool is_guest(const std::unique_ptr<Peer>& peer) {
    return peer->state == Peer::State::guest;
  }
  bool lose_oldest_guest() {
    const auto oldest = std::find_if(peers_.begin(), peers_.end(), is_guest);
    if (oldest == peers_.end()) return false;
    lose(**oldest);
    return true;
  }

  void challenge(Peer& peer) {
    ++stats_.store_sent;
    peer.connection.queue(wire::encode(peer.challenge));
    if (!peer.connection.flush()) lose(peer);
  }

  void serve(Peer& peer, int events) {
    if (peer.connection.sending() && !peer.connection.flush()) return lose(peer);
    if (peer.state == Peer::State::leaving) {
      if (!peer.connection.sending() || (events & (POLLHUP | POLLERR))) lose(peer);
    } else if (awaited(peer) && (events & (POLLIN | POLLHUP | POLLERR))) {
      const bool open = peer.connection.receive();
      listen_to(peer);
      if (!open && (peer.state == Peer::State::guest || peer.state == Peer::State::member))
        lose(peer);
    } else if (events & (POLLRDHUP | POLLHUP | POLLERR)) {
      lose(peer);
    }
  }

  // The peer's end is gone. For a rank of the job, that is the end of the job.
  void lose(Peer& peer) {
    if (peer.state == Peer::State::guest)
      log_line(LogLevel::info, config_.rank,
               concat(peer.connection.peer(), " came and left without a word."));
    if (peer.state == Peer::State::member)
      fail(Status(Code::peer_lost,
                  concat("Rank ", peer.rank,
                         " ended or died while the ranks of the job were meeting; "
                         "see its own output for the reason."),
                  peer.rank));
    if (peer.state == Peer::State::member) ++told_;  // nobody is left there to be told more
    peer.state = Peer::State::gone;
    peer.connection.close();
  }

  void fail(Status why) {
    if (failure_.ok()) failure_ = std::move(why);
  }

  void refuse(Peer& peer, bool elsewhere, const Status& why) {
    if (refusals_.next())
      log_line(LogLevel::warning, config_.rank,
               concat("refused ", peer.connection.peer(), ": ", why.message(), refusals_.place()));
    leave(peer, elsewhere, why);
  }
  void tell_failure(Peer& peer) {
    ++told_;
    leave(peer, false, failure_);
  }
  void leave(Peer& peer, bool elsewhere, const Status& why) {
    peer.state = Peer::State::leaving;
    ++stats_.store_sent;
    peer.refuse({elsewhere, why}, door_.meeting);
    if (!peer.connection.flush() || !peer.connection.sending()) {
      peer.state = Peer::State::gone;
      peer.connection.close();
    }
  }

  void listen_to(Peer& peer) {
    const auto frame = peer.connection.next(wire::kOfferBytes);
    if (!frame.ok()) return reject(peer, frame.status());
    if (!frame->has_value()) return;
    ++stats_.store_received;
    std::optional<wire::Offer> offer;
    if ((**frame).type == wire::Type::offer) offer = wire::parse_offer((**frame).payload);
    if (!offer)
      return reject(peer, invalid_argument("It sent a message that makes no sense here."));
    if (peer.state == Peer::State::member) return take(peer, std::move(*offer));
    const auto refusal =
        wire::refusal_at(door_, **frame, *offer, peer.challenge, peer.connection.peer());
    if (refusal) {
      if (offer->job == config_.job && refused_.size() < 4)
        refused_.emplace_back(refusal->status.message());
      return refuse(peer, refusal->elsewhere, refusal->status);
    }
    peer.proven = offer->nonce;
    if (admits(peer, *offer)) welcome(peer, std::move(*offer));
  }

  // Nonsense: a stranger is shown the door, a rank of the job ends the job.
  void reject(Peer& peer, const Status& why) {
    if (peer.state == Peer::State::guest) return refuse(peer, true, why);
    fail(Status(Code::internal, concat("Rank ", peer.rank, " broke the protocol. ", why.message()),
                peer.rank));
  }

  // Whether a guest that is of this job may join. Ranks that contradict it end it.
  bool admits(Peer& peer, const wire::Offer& offer) {
    const std::string who = concat("Rank ", offer.rank, " at ", peer.connection.peer());
    if (failure_.ok() && offer.size != static_cast<uint32_t>(config_.size))
      fail(Status(Code::mismatch,
                  concat(who, " says that the job has ", offer.size, " ranks, rank ", config_.rank,
                         " that it has ", config_.size, "; start all ranks with the same number."),
                  static_cast<int>(offer.rank)));
    if (offer.rank >= offer.size || offer.round != 0) {
      refuse(peer, false,
             Status(Code::invalid_argument,
                    concat(who, " is out of range in a job of ", offer.size, " ranks.")));
      return false;
    }
    if (failure_.ok() && here_[offer.rank] && came_already(offer)) {
      peer.state = Peer::State::gone;
      peer.connection.close();
      return false;
    }
    if (failure_.ok() && here_[offer.rank])
      fail(Status(Code::mismatch,
                  concat("Two processes say that they are rank ", offer.rank, ", the second at ",
                         peer.connection.peer(), "; give every process a rank of its own."),
                  static_cast<int>(offer.rank)));
    if (!failure_.ok()) tell_failure(peer);
    return failure_.ok();
  }

  // Whether this is the same process by another of our addresses: one connection is enough.
  bool came_already(const wire::Offer& offer) const {
    return std::any_of(peers_.begin(), peers_.end(), [&](const auto& peer) {
      return peer->state == Peer::State::member && peer->rank == static_cast<Rank>(offer.rank) &&
             peer->process == offer.process;
    });
  }

  void welcome(Peer& peer, wire::Offer offer) {
    peer.state = Peer::State::member;
    peer.rank = static_cast<Rank>(offer.rank);
    peer.process = offer.process;
    ++stats_.store_sent;
    peer.answer(wire::Answer(wire::Type::welcome, wire::payload_of(config_.rank), door_.meeting),
                door_.meeting);
    take(peer, std::move(offer));
    if (!peer.connection.flush()) lose(peer);
  }

  void take(Peer& peer, wire::Offer offer) {
    if (!wire::proves(offer, door_.meeting, peer.challenge))
      return reject(peer, invalid_argument("What it offered is not proven to be its own."));
    peer.proven = offer.nonce;
    if (offer.rank != static_cast<uint32_t>(peer.rank) || offer.round != round_)
      return fail(Status(Code::mismatch,
                         concat("Rank ", peer.rank, " is at meeting ", offer.round,
                                " of the job, rank ", config_.rank, " at meeting ", round_,
                                "; all ranks must make the same calls in the same order."),
                         peer.rank));
    offers_[offer.rank] = std::move(offer.blob);
    here_[offer.rank] = true;
    --missing_;
    // Answered a little before the rank would give up, so that it learns who was missing.
    const int64_t patience = int64_t{offer.patience_ms} * kMillisecond;
    const int64_t margin = std::min(patience / 4, 1000 * kMillisecond);
    answer_by_ns_ = std::min(answer_by_ns_, steady_clock().now_ns() + patience - margin);
  }

  Status nobody_came() const {
    std::vector<Rank> absent;
    for (Rank r = 0; r < config_.size; ++r)
      if (!here_[static_cast<size_t>(r)]) absent.push_back(r);
    std::string text =
        concat(absent.size() == 1 ? "Rank " : "Ranks ", wire::list_ranks(absent), " of ",
               config_.size, " did not come to meeting ", round_,
               " of the job within the time given; start ", absent.size() == 1 ? "it" : "them",
               " or allow more time (WEFT_TIMEOUT, or a program's own option).");
    for (const std::string& refused : refused_) text.append(" ").append(refused);
    return Status(Code::timeout, std::move(text), absent.front());
  }

  // Sends the table to everybody; ranks that were not there at the start can no longer join.
  void answer(const Deadline& deadline) {
    const wire::Answer table(wire::Type::table, wire::payload_of(offers_), door_.meeting);
    for (const auto& peer : peers_) {
      if (peer->state != Peer::State::member) continue;
      ++stats_.store_sent;
      peer->answer(table, door_.meeting);
      if (!peer->connection.flush()) lose(*peer);
    }
    // Whoever has its answer may leave, so only those who have not are watched here.
    std::vector<pollfd> polled;
    do {
      polled.clear();
      for (const auto& peer : peers_)
        if (peer->state == Peer::State::member && peer->connection.sending()) {
          polled.push_back({peer->connection.socket().get(), POLLOUT, 0});
          if (!peer->connection.flush()) lose(*peer);
        }
      // A signal may end it early.
      (void)::poll(polled.data(), polled.size(), polled.empty() ? 0 : deadline.left_ms(1000));
    } while (!polled.empty() && !deadline.expired());
    for (const auto& peer : peers_)
      if (peer->state == Peer::State::member && peer->connection.sending())
        fail(Status(Code::timeout,
                    concat("Rank ", peer->rank, " did not take the answer of meeting ", round_,
                           " within the time given; is it stopped?"),
                    peer->rank));
    if (round_ == 0) end_of_arrival();
  }

  void end_of_arrival() {
    announcement_->withdraw();
    listener_.reset();
    std::erase_if(peers_, [](const auto& peer) { return peer->state != Peer::State::member; });
  }

  // Tells everybody why the job fails: who is here, and for a moment also who still comes.
  void say_farewell() {
    const bool soon = failure_.code() == Code::aborted;
    const Deadline end = Deadline::after(soon ? kShortFarewellSeconds : kFarewellSeconds);
    const bool more_come = round_ == 0 && failure_.code() != Code::timeout;
    for (const auto& peer : peers_)
      if (peer->state == Peer::State::member) tell_failure(*peer);
    const auto leaving = [](const auto& peer) { return peer->state == Peer::State::leaving; };
    while (((more_come && told_ < config_.size - 1) ||
            std::any_of(peers_.begin(), peers_.end(), leaving)) &&
           !end.expired())
      step(end.left_ms(100));
    end_of_arrival();
    peers_.clear();
  }

  const StoreConfig config_;
  const wire::Door door_;
  Fd listener_;  // open until all ranks have come
  const std::unique_ptr<Announcement> announcement_;
  std::vector<std::unique_ptr<Peer>> peers_;
  uint32_t round_ = 0;
  std::vector<std::string> offers_;  // of this round, by rank
  std::vector<bool> here_;
  int missing_ = 0;
  int64_t answer_by_ns_ = 0;          // when the first of the ranks that are here loses patience
  std::vector<std::string> refused_;  // ranks of this job that could not be let in
  Thinned refusals_;
  Status failure_;
  int told_ = 0;  // ranks that know of the failure, or never will
  RendezvousStats stats_;
};

}  // namespace

Status check_blob(const std::string& blob) {
  if (blob.size() <= wire::kBlobBytes) return {};
  return invalid_argument(concat("A rank may contribute at most ", wire::kBlobBytes,
                                 " bytes to a meeting, not ", blob.size(), "."));
}

Status ended(const Deadline& deadline, Rank rank, Status why) {
  if (!deadline.cancelled()) return why;
  return Status(Code::aborted,
                concat("Rank ", rank, " aborted while the ranks of the job were meeting."), rank);
}

std::unique_ptr<Rendezvous> make_store_server(StoreConfig config, Fd listener,
                                              std::unique_ptr<Announcement> announcement) {
  return std::make_unique<StoreServer>(std::move(config), std::move(listener),
                                       std::move(announcement));
}

}  // namespace weft
