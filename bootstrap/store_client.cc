#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/random.h"
#include "base/text.h"
#include "bootstrap/connection.h"
#include "bootstrap/store.h"

namespace weft {
namespace {

constexpr int64_t kFirstRetryNs = 2 * kMillisecond;
constexpr int64_t kLastRetryNs = 100 * kMillisecond;
constexpr int64_t kStrangerRetryNs =
    500 * kMillisecond;  // after an answer that was not the store's
constexpr int64_t kLookNs = 50 * kMillisecond;
constexpr int64_t kNextAddressNs = 500 * kMillisecond;  // where one keeps silent
constexpr double kGone_s = 0.5;                         // where all refuse

int64_t now_ns() { return steady_clock().now_ns(); }

// One address where the store may be. All are tried side by side until one of them welcomes us (the
// next one at once where one fails, a little later where it keeps silent), so that an address that
// swallows packets, or a stranger who listens and says nothing, costs little time.
struct Attempt {
  explicit Attempt(SocketAddress where) : address(where) {}

  SocketAddress address;
  Connection connection;
  std::optional<Nonce> challenge;  // the store's, once it has come
  wire::Offer offer;               // what it was answered with
  bool connecting = false;
  bool tried = false;
  bool refused = false;  // the last time
  int64_t retry_at_ns = 0;
  int64_t retry_after_ns = kFirstRetryNs;
};

class StoreClient final : public Rendezvous {
 public:
  StoreClient(StoreConfig config, std::unique_ptr<Announcement> announcement)
      : config_(std::move(config)),
        announcement_(std::move(announcement)),
        process_(random_number()) {}

  Rank rank() const override { return config_.rank; }
  int size() const override { return config_.size; }
  RendezvousStats stats() const override { return stats_; }
  Key key() const override { return config_.key; }

  Result<std::vector<std::string>> all_gather(std::string mine, const Deadline& deadline) override {
    if (!failure_.ok()) return failure_;
    WEFT_TRY(check_blob(mine));
    failure_ = round_ == 0 ? meet(mine, deadline) : Status();
    if (failure_.ok() && round_ > 0) {
      offered_before_ = offered_;
      offered_ = send_offer(store_, challenge_, mine, deadline).nonce;
    }
    std::vector<std::string> table;
    if (failure_.ok()) failure_ = await_table(deadline, table);
    if (!failure_.ok()) {
      failure_ = ended(deadline, config_.rank, failure_);
      store_.close();
      return failure_;
    }
    ++round_;
    return table;
  }

 private:
  wire::Offer send_offer(Connection& to, const Nonce& challenge, const std::string& blob,
                         const Deadline& deadline) {
    wire::Offer offer;
    offer.rank = static_cast<uint32_t>(config_.rank);
    offer.size = static_cast<uint32_t>(config_.size);
    offer.round = round_;
    offer.patience_ms =
        static_cast<uint32_t>(std::min<int64_t>(deadline.left_ns() / kMillisecond, 1'000'000'000));
    offer.process = process_;
    offer.job = config_.job;
    offer.nonce = fresh_nonce();
    offer.blob = blob;
    offer.proof = wire::prove(offer, key_of_meeting(), challenge);
    to.queue(wire::encode(offer));
    ++stats_.messages_sent;
    return offer;
  }

  // Until one of the addresses has welcomed us: afterwards store_ is the connection to it.
  Status meet(const std::string& blob, const Deadline& deadline) {
    int64_t look_at_ns = 0;
    while (!store_.open()) {
      if (now_ns() >= look_at_ns) {
        WEFT_TRY(look(deadline));
        look_at_ns = now_ns() + kLookNs;
      }
      for (Attempt& attempt : attempts_)
        if (!attempt.connection.open() && now_ns() >= attempt.retry_at_ns) WEFT_TRY(start(attempt));
      WEFT_TRY(wait_for_welcome(blob, deadline));
      if (!store_.open() && is_gone()) return gone();
      if (!store_.open() && deadline.expired()) return nobody_there();
    }
    attempts_.clear();
    return {};
  }

  Status look(const Deadline& deadline) {
    Result<std::optional<Place>> place = announcement_->look(deadline);
    const bool own_fault = place.status().peer() == config_.rank;
    if (!place.ok() && (own_fault || place.status().code() != Code::system)) return place.status();
    if (!place.ok()) problem_ = std::string(place.status().message());  // names may resolve later
    if (!place.ok() || !place->has_value()) return {};
    if ((**place).job != config_.job) attempts_.clear();
    config_.job = (**place).job;
    try_at((**place).addresses);
    return {};
  }

  // Attempts at addresses that stay go on: the store may have taken an offer.
  void try_at(const std::vector<SocketAddress>& addresses) {
    std::vector<Attempt> before = std::exchange(attempts_, {});
    for (const SocketAddress& address : addresses) {
      const auto same = std::find_if(before.begin(), before.end(), [&](const Attempt& attempt) {
        return attempt.address.to_string() == address.to_string();
      });
      attempts_.push_back(same == before.end() ? Attempt(address) : std::move(*same));
      if (same != before.end())
        before.erase(same);
      else
        attempts_.back().retry_at_ns =
            now_ns() + static_cast<int64_t>(attempts_.size() - 1) * kNextAddressNs;
    }
  }

  // Fails where there is no descriptor for any attempt; waiting does not help.
  Status start(Attempt& attempt) {
    attempt.tried = true;
    Result<Fd> socket = start_connect(attempt.address);
    if (!socket.ok()) {
      const bool in_vain = lacks_descriptors() && !is_trying();
      put_off(attempt, socket.status());
      return in_vain ? cannot_connect(socket.status()) : Status();
    }
    attempt.connection = Connection(socket.take());
    attempt.challenge.reset();
    attempt.connecting = true;
    return {};
  }

  bool is_trying() const {
    return std::any_of(attempts_.begin(), attempts_.end(),
                       [](const Attempt& attempt) { return attempt.connection.open(); });
  }

  Status cannot_connect(const Status& why) const {
    return Status(
        Code::system,
        concat("Rank ", config_.rank, " cannot connect to the other ranks: ", why.message()),
        config_.rank);
  }

  void put_off(Attempt& attempt, const Status& why) {
    put_off(attempt, why.message());
    attempt.refused = why.code() == Code::peer_lost;
  }
  void put_off(Attempt& attempt, std::string_view why) {
    problem_ = concat(attempt.address.to_string(), ": ", why);
    attempt.refused = false;
    attempt.connection.close();
    attempt.connecting = false;
    attempt.retry_at_ns = now_ns() + attempt.retry_after_ns;
    attempt.retry_after_ns = std::min(2 * attempt.retry_after_ns, kLastRetryNs);
    const auto next = static_cast<size_t>(&attempt - attempts_.data()) + 1;
    if (next < attempts_.size() && !attempts_[next].tried) attempts_[next].retry_at_ns = 0;
  }

  Status wait_for_welcome(const std::string& blob, const Deadline& deadline) {
    std::vector<pollfd> polled;
    int64_t wake_ns = now_ns() + kLookNs;
    for (const Attempt& attempt : attempts_) {
      const bool out = attempt.connecting || attempt.connection.sending();
      polled.push_back({attempt.connection.socket().get(),
                        static_cast<short>(out ? POLLIN | POLLOUT : POLLIN), 0});
      if (!attempt.connection.open()) wake_ns = std::min(wake_ns, attempt.retry_at_ns);
    }
    const int64_t wait_ms = (wake_ns - now_ns() + kMillisecond - 1) / kMillisecond;
    const int ready = ::poll(polled.data(), polled.size(),
                             deadline.left_ms(static_cast<int>(std::max<int64_t>(wait_ms, 0))));
    for (size_t i = 0; ready > 0 && i < polled.size(); ++i) {
      if (!polled[i].revents) continue;
      WEFT_TRY(serve(attempts_[i], blob, deadline));
      if (store_.open()) return {};
    }
    return {};
  }

  Status serve(Attempt& attempt, const std::string& blob, const Deadline& deadline) {
    if (attempt.connecting) {
      if (const Status why = finish_connecting(attempt); !why.ok()) {
        put_off(attempt, why);
        return {};
      }
    }
    const bool open = attempt.connection.flush() && attempt.connection.receive();
    const auto frame = attempt.connection.next(wire::kRefusalBytes);
    if (!frame.ok()) {
      put_off_stranger(attempt, frame.status().message());
    } else if (frame->has_value() && (**frame).type == wire::Type::challenge) {
      take_challenge(attempt, **frame, blob, deadline);
    } else if (frame->has_value()) {
      return judge(attempt, **frame);
    } else if (!open) {
      put_off(attempt, "the connection was closed without an answer");
    }
    return {};
  }

  Status finish_connecting(Attempt& attempt) {
    attempt.connecting = false;
    const Fd& socket = attempt.connection.socket();
    WEFT_TRY(connect_error(socket));
    const Result<SocketAddress> local = local_address(socket), peer = peer_address(socket);
    if (!local.ok()) return local.status();
    if (!peer.ok()) return peer.status();
    // A port that nobody listens at may, by chance, become our own end's.
    if (peer->family() != AF_UNIX && local->to_string() == peer->to_string())
      return Status(Code::system, "nobody listens there");
    const Result<Process> process = peer_process(socket);
    if (peer->family() == AF_UNIX && process.ok() && process->user != ::geteuid())
      return Status(Code::system, "it belongs to another user");
    return {};
  }

  void take_challenge(Attempt& attempt, const wire::Frame& frame, const std::string& blob,
                      const Deadline& deadline) {
    ++stats_.messages_received;
    const bool again = attempt.challenge.has_value();
    attempt.challenge = wire::parse_challenge(frame.payload);
    if (again || !attempt.challenge) return put_off_stranger(attempt, "nonsense");
    attempt.offer = send_offer(attempt.connection, *attempt.challenge, blob, deadline);
    if (!attempt.connection.flush())
      put_off(attempt, "the connection was closed without an answer");
  }

  Status judge(Attempt& attempt, const wire::Frame& frame) {
    ++stats_.messages_received;
    if (frame.type == wire::Type::refusal) return judge_refusal(attempt, frame.payload);
    if (frame.version != wire::kVersion) {
      put_off_stranger(attempt, concat("it speaks version ", frame.version,
                                       " of weft's protocol, this rank version ", wire::kVersion));
      return {};
    }
    const auto payload =
        attempt.challenge
            ? wire::proven_payload(frame, attempt.offer.nonce, key_of_meeting(), *attempt.challenge)
            : std::nullopt;
    if (payload && frame.type == wire::Type::verdict) return verdict(*payload);
    if (payload && frame.type == wire::Type::welcome) {
      store_ = std::move(attempt.connection);
      challenge_ = *attempt.challenge;
      offered_ = offered_before_ = attempt.offer.nonce;
      if (const auto server = wire::parse_welcome(*payload)) config_.server = *server;
    } else {
      put_off_stranger(attempt, "it does not prove that it has the secret of this job");
    }
    return {};
  }

  // Anybody could have said it. Where the job has no secret, and there is but one place, whoever
  // answers there is taken for who was meant; else it is known at the deadline.
  Status judge_refusal(Attempt& attempt, std::string_view payload) {
    const std::optional<wire::Refusal> refusal = wire::parse_refusal(payload);
    const bool believed = !config_.key.secret();
    if (refusal && believed && (!refusal->elsewhere || announcement_->certain()))
      return refusal->status;
    const std::string why(refusal ? refusal->status.message() : "nonsense");
    if (refusal && !believed && warnings_.next())
      log_line(LogLevel::warning, config_.rank,
               concat(attempt.address.to_string(), " refuses this rank: ", why,
                      " It has not proven to be of this job, so others are waited for.",
                      warnings_.place()));
    put_off_stranger(attempt, why);
    return {};
  }

  Status verdict(std::string_view payload) const {
    const std::optional<wire::Refusal> refusal = wire::parse_refusal(payload);
    return refusal ? refusal->status : broken("It sent a verdict that makes no sense.");
  }

  Key key_of_meeting() const { return wire::meeting_key(config_.key, config_.job); }

  void put_off_stranger(Attempt& attempt, std::string_view why) {
    log_line(LogLevel::info, config_.rank,
             concat("no store of this job at ", attempt.address.to_string(), ": ", why));
    attempt.retry_after_ns = kStrangerRetryNs;
    put_off(attempt, why);
  }

  // Whether whoever listened does not any more: once might be a host that is short of something.
  bool is_gone() {
    const bool refused = announcement_->listens() && !attempts_.empty() &&
                         std::all_of(attempts_.begin(), attempts_.end(),
                                     [](const Attempt& attempt) { return attempt.refused; });
    if (!refused) gone_.reset();
    if (refused && !gone_) gone_ = Deadline::after(kGone_s);
    return refused && gone_->expired();
  }

  Status gone() const {
    const std::string where = addresses_where([](const Attempt&) { return true; });
    return Status(
        Code::peer_lost,
        concat("Rank ", config_.rank, " could not meet the other ranks: nobody listens at ", where,
               " any more, so who did has ended or died, or has met the others already; see its "
               "output for the reason."),
        config_.server);
  }

  // Who serves, as far as that is known.
  std::string server() const {
    return config_.server < 0 ? "the first rank on mpirun's host" : concat("rank ", config_.server);
  }

  // "10.0.0.1:4000, [fd00::1]:4000": the addresses of those attempts.
  std::string addresses_where(bool (*is)(const Attempt&)) const {
    std::string text;
    for (const Attempt& attempt : attempts_)
      if (is(attempt)) text.append(text.empty() ? "" : ", ").append(attempt.address.to_string());
    return text;
  }

  // Why nobody has welcomed us, as far as can be seen from here.
  std::string obstacle() const {
    const std::string silent = addresses_where(
        [](const Attempt& attempt) { return attempt.connection.open() && !attempt.connecting; });
    if (!silent.empty())
      return concat(silent, " accepted the connection but does not answer; is ", server(),
                    " stopped, or not yet at this call?",
                    problem_.empty() ? "" : " Before that: ", problem_);
    if (!problem_.empty()) return problem_;
    const std::string asked =
        addresses_where([](const Attempt& attempt) { return attempt.connecting; });
    if (!asked.empty()) return concat(asked, ": nothing there takes the connection or refuses it");
    const std::string reason = announcement_->reason();
    return reason.empty() ? "no address was announced" : reason;
  }

  Status nobody_there() const {
    return Status(
        Code::timeout,
        concat("Rank ", config_.rank, " could not meet the other ranks within the time given (",
               obstacle(), "). Check that ", server(),
               " runs, that it did not start without this rank, and that all ranks have the same "
               "rendezvous and job.",
               announcement_->advice()),
        config_.server);
  }

  Status await_table(const Deadline& deadline, std::vector<std::string>& table) {
    const size_t limit =
        std::max(wire::kRefusalBytes, static_cast<size_t>(config_.size) * (wire::kBlobBytes + 4)) +
        sizeof(KeyProof);
    bool open = true;
    while (true) {
      open = store_.flush() && open;
      const auto frame = store_.next(limit);
      if (!frame.ok()) return broken(frame.status().message());
      if (frame->has_value()) return read_answer(**frame, table);
      if (!open)
        return Status(
            Code::peer_lost,
            concat("The rank that runs the store (", server(), ") ended or died at meeting ",
                   round_, "; see its output for the reason."),
            config_.server);
      if (deadline.expired())
        return Status(
            Code::timeout,
            concat("The rank that runs the store (", server(), ") did not answer at meeting ",
                   round_, " within the time given; is it stopped, or busy elsewhere?"),
            config_.server);
      pollfd entry{store_.socket().get(), POLLIN, 0};
      if (store_.sending()) entry.events |= POLLOUT;
      if (::poll(&entry, 1, deadline.left_ms(1000)) > 0 && (entry.revents & ~POLLOUT))
        open = store_.receive();
    }
  }

  Status read_answer(const wire::Frame& frame, std::vector<std::string>& table) {
    ++stats_.messages_received;
    auto payload = wire::proven_payload(frame, offered_, key_of_meeting(), challenge_);
    // Where the store fails, it may not have read the last offer yet.
    if (!payload && frame.type == wire::Type::verdict)
      payload = wire::proven_payload(frame, offered_before_, key_of_meeting(), challenge_);
    if (!payload) return broken("Its answer was changed on its way, or is another's.");
    if (frame.type == wire::Type::verdict) return verdict(*payload);
    auto parsed = wire::parse_table(*payload, static_cast<size_t>(config_.size));
    if (frame.type != wire::Type::table || !parsed)
      return broken("It sent something else than the table of all ranks.");
    table = std::move(*parsed);
    return {};
  }

  Status broken(std::string_view why) const {
    return Status(Code::internal, concat("The store broke the protocol. ", why), config_.server);
  }

  StoreConfig config_;
  const std::unique_ptr<Announcement> announcement_;
  const uint64_t process_;
  std::vector<Attempt> attempts_;
  Connection store_;
  Nonce challenge_{};  // the store's
  Nonce offered_{};    // of the last offer to it
  Nonce offered_before_{};
  uint32_t round_ = 0;
  std::string problem_;           // why the last attempt failed
  std::optional<Deadline> gone_;  // since all addresses refuse: when nobody counts as there
  Thinned warnings_;
  Status failure_;
  RendezvousStats stats_;
};

}  // namespace

std::unique_ptr<Rendezvous> make_store_client(StoreConfig config,
                                              std::unique_ptr<Announcement> announcement) {
  return std::make_unique<StoreClient>(std::move(config), std::move(announcement));
}

}  // namespace weft
