#include "nccl/ids.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <new>
#include <set>
#include <thread>

#include "base/log.h"
#include "base/text.h"
#include "base/thread.h"
#include "bootstrap/caller.h"
#include "bootstrap/place.h"
#include "bootstrap/store.h"
#include "nccl/settings.h"

namespace weft::nccl {
namespace {

constexpr size_t kTextBytes = NCCL_UNIQUE_ID_BYTES - 1;  // and a zero
constexpr double kPatienceSeconds = 2;                   // with one who has connected
constexpr size_t kGuests = 256;                          // that have proven nothing, at a time

// An id as its ranks use it: they know each other by a key that comes of the id's own and of the
// job's secret. The id's own is never sent; what tells ids apart in the clear is a name that says
// nothing about it.
struct Known {
  Place place;  // the keeper's, with that name
  Key key;
};

Known known(Place id, const Key& secret) {
  const Key key = secret.derive("unique id", id.job);
  id.job = hex(Key().derive("unique id", id.job).prove("name", {}));
  return {std::move(id), key};
}

// The process that made an id: tells ranks where rank 0 is. Speaks as the store does: what rank 0
// offers is its place, the others offer nothing, and each gets, once the place is known, a table
// that has it as rank 0's. Nobody who has not proven to know the id (and the secret) changes or
// learns anything, or keeps anybody waiting.
class Keeper {
 public:
  // Where ranks are lost before all have come, the others are told for so many seconds more.
  Keeper(Fd listener, const Known& id, double afterlife_s)
      : listener_(std::move(listener)),
        door_{"the maker of the unique id", id.place.job, wire::meeting_key(id.key, id.place.job)},
        afterlife_s_(afterlife_s) {}

  void serve() {
    while (!all_told() && !end_.expired()) step();
  }

 private:
  // One who has proven nothing asks; then waits for the place, and goes when told. Rank 0 stays:
  // when it goes before all others were told, they are told that.
  enum class State { asks, waits, told, leaves, gone };
  struct Guest : Caller {
    State state = State::asks;
    Deadline patience = Deadline::after(kPatienceSeconds);
    wire::Offer offer{};  // of one who waits or was told
  };

  static bool asks(const Guest& guest) { return guest.state == State::asks; }
  static bool is_stranger(const Guest& guest) {
    return asks(guest) || guest.state == State::leaves;
  }
  static pollfd polled(const Guest& guest) {
    int events = asks(guest) ? POLLIN : POLLRDHUP;
    if (guest.connection.sending()) events |= POLLOUT;
    return {guest.connection.socket().get(), static_cast<short>(events), 0};
  }

  void step() {
    std::vector<pollfd> entries{{listener_.get(), POLLIN, 0}};
    for (const Guest& guest : guests_) entries.push_back(polled(guest));
    const bool hurry = std::any_of(guests_.begin(), guests_.end(), is_stranger);
    const int until_end = failure_.ok() ? -1 : end_.left_ms(std::numeric_limits<int>::max());
    if (::poll(entries.data(), entries.size(), hurry ? 100 : until_end) < 0) return;
    for (size_t i = 1; i < entries.size(); ++i) serve(guests_[i - 1], entries[i].revents);
    for (Guest& guest : guests_) settle(guest);
    if (entries[0].revents) welcome();
    std::erase_if(guests_, [](const Guest& guest) { return guest.state == State::gone; });
  }

  void welcome() {
    Result<Fd> socket = accept_from(listener_);
    if (socket.ok() && socket->valid()) {
      Guest& guest = guests_.emplace_back();
      guest.connection = Connection(socket.take());
      guest.connection.queue(wire::encode(guest.challenge));
      if (!guest.connection.flush()) lose(guest);
    } else if (!socket.ok() && !lose_oldest()) {  // no descriptor is left: not again at once
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    if (std::count_if(guests_.begin(), guests_.end(), asks) > ptrdiff_t{kGuests}) lose_oldest();
  }

  bool lose_oldest() {
    const auto oldest = std::find_if(guests_.begin(), guests_.end(), asks);
    if (oldest == guests_.end()) return false;
    lose(*oldest);
    return true;
  }

  void serve(Guest& guest, int events) {
    bool open = guest.connection.flush();
    if (asks(guest) && events != 0) {
      open = guest.connection.receive() && open;
      listen_to(guest);
    } else if (events & (POLLRDHUP | POLLHUP | POLLERR)) {
      open = false;
    }
    if (!open || (is_stranger(guest) && guest.patience.expired())) lose(guest);
  }

  // Its end is gone. A rank that others wait for, or will, takes them with it.
  void lose(Guest& guest) {
    const uint32_t rank = guest.offer.rank;
    const bool needed = guest.state == State::waits || guest.state == State::told;
    if (needed && failure_.ok() && (rank == 0 || !told_.contains(rank))) {
      failure_ = Status(Code::peer_lost,
                        concat("Rank ", rank,
                               " ended, died or gave up before all ranks of the unique id had "
                               "come; see its own output for the reason."),
                        static_cast<int>(rank));
      end_ = Deadline::after(afterlife_s_);
    }
    drop(guest);
  }
  static void drop(Guest& guest) {
    guest.state = State::gone;
    guest.connection.close();
  }

  void listen_to(Guest& guest) {
    const auto frame = guest.connection.next(wire::kOfferBytes);
    if (!frame.ok()) return refuse(guest, {true, frame.status()});
    if (!frame->has_value()) return;
    std::optional<wire::Offer> offer;
    if ((**frame).type == wire::Type::offer) offer = wire::parse_offer((**frame).payload);
    if (!offer)
      return refuse(guest, {true, invalid_argument("It sent a message that makes no sense here.")});
    const auto refusal =
        wire::refusal_at(door_, **frame, *offer, guest.challenge, guest.connection.peer());
    if (refusal) return refuse(guest, *refusal);
    admit(guest, std::move(*offer));
  }

  void admit(Guest& guest, wire::Offer offer) {
    if (came_already(offer)) return drop(guest);
    guest.proven = offer.nonce;
    if (const Status why = take(offer); !why.ok()) return refuse(guest, {false, why});
    answer(guest, wire::Type::welcome, "");
    guest.offer = std::move(offer);
    guest.state = State::waits;
  }

  // By another of our addresses: one connection is enough.
  bool came_already(const wire::Offer& offer) const {
    return std::any_of(guests_.begin(), guests_.end(), [&](const Guest& guest) {
      return !is_stranger(guest) && guest.offer.rank == offer.rank &&
             guest.offer.process == offer.process;
    });
  }

  // Believes the first rank 0. Others that contradict it as to the number of ranks are none of the
  // keeper's business: at rank 0's store all are told.
  Status take(const wire::Offer& offer) {
    if (offer.rank >= offer.size || offer.size > uint32_t{kRanksMax} || offer.round != 0 ||
        (offer.rank == 0) == offer.blob.empty())
      return invalid_argument(concat("Rank ", offer.rank, " of ", offer.size,
                                     " says what makes no sense for a unique id."));
    if (offer.rank == 0 && place_.empty()) {
      place_ = offer.blob;
      size_ = offer.size;
    }
    if (offer.rank != 0 || (offer.blob == place_ && offer.size == size_)) return {};
    return Status(Code::mismatch,
                  "Another process said before that it is rank 0 of this unique id; give every "
                  "process a rank of its own, and make a new id for every communicator.",
                  0);
  }

  void refuse(Guest& guest, const wire::Refusal& refusal) {
    if (refusals_.next())
      log_line(LogLevel::warning, -1,
               concat("refused ", guest.connection.peer(), ": ", refusal.status.message(),
                      refusals_.place()));
    leave(guest, refusal);
  }
  void leave(Guest& guest, const wire::Refusal& refusal) {
    guest.state = State::leaves;
    guest.patience = Deadline::after(kPatienceSeconds);
    guest.refuse(refusal, door_.meeting);
  }
  void answer(Guest& guest, wire::Type type, std::string payload) const {
    guest.answer(wire::Answer(type, std::move(payload), door_.meeting), door_.meeting);
  }

  // Tells who waits what there is to tell; who has been told all goes.
  void settle(Guest& guest) {
    if (guest.state == State::waits && !failure_.ok()) leave(guest, {false, failure_});
    if (guest.state == State::waits && !place_.empty()) {
      std::vector<std::string> table(guest.offer.size);
      table.front() = place_;
      answer(guest, wire::Type::table, wire::payload_of(table));
      guest.state = State::told;
    }
    if (!guest.connection.flush() || guest.connection.sending()) return;  // what is lost, poll says
    if (guest.state == State::told && guest.offer.size == size_) told_.insert(guest.offer.rank);
    if (guest.state == State::leaves || (guest.state == State::told && guest.offer.rank != 0))
      drop(guest);
  }

  bool all_told() const { return size_ > 0 && told_.size() >= size_; }

  const Fd listener_;
  const wire::Door door_;
  const double afterlife_s_;
  std::vector<Guest> guests_;
  std::string place_;        // rank 0's
  uint32_t size_ = 0;        // as rank 0 says
  std::set<uint32_t> told_;  // ranks that know the place, rank 0 too
  Status failure_;           // of a rank
  Deadline end_;             // comes with it
  Thinned refusals_;
};

// A rank's end of the same: a client of that store.
class AtKeeper final : public Announcement {
 public:
  // `place`: rank 0's; empty on others.
  AtKeeper(const Known& id, int rank, int size, std::string place)
      : place_(std::move(place)),
        keeper_(make_store_client({.rank = rank, .size = size, .job = "", .key = id.key},
                                  listening_place(id.place))) {}

  Status announce(const Deadline& deadline) override { return ask(deadline).status(); }
  void withdraw() override { keeper_.reset(); }  // the keeper sees that
  bool listens() const override { return true; }

  Result<std::optional<Place>> look(const Deadline& deadline) override {
    if (found_) return found_;
    const Result<std::string> told = ask(deadline);
    if (!told.ok()) return told.status();
    Result<Place> place = parse_id(*told);
    if (!place.ok()) return place.status();
    found_ = place.take();
    keeper_.reset();
    return found_;
  }

  std::string advice() const override {
    return " The process that called ncclGetUniqueId must still be there, and rank 0 must have "
           "called "
           "ncclCommInitRank.";
  }

 private:
  Result<std::string> ask(const Deadline& deadline) {
    const auto table = keeper_->all_gather(place_, deadline);
    if (table.ok()) return table->front();
    const Status& why = table.status();
    const bool late = why.code() == Code::timeout;
    return Status(why.code(),
                  concat("The maker of the unique id: ", why.message(), late ? advice() : ""),
                  why.peer());
  }

  const std::string place_;
  std::unique_ptr<Rendezvous> keeper_;  // null when all is said
  std::optional<Place> found_;
};

// As many addresses as there is room for, the likeliest first.
std::string fitting_text(Place place) {
  while (place.addresses.size() > 1 && id_text(place).size() > kTextBytes)
    place.addresses.pop_back();
  return id_text(place);
}

Result<ncclUniqueId> id_of(const std::string& text) {
  if (text.size() > kTextBytes)
    return unsupported(concat("the addresses of this host do not fit into a unique id: ", text,
                              "; name one interface by NCCL_SOCKET_IFNAME"));
  ncclUniqueId id{};
  std::memcpy(id.internal, text.c_str(), text.size());
  return id;
}

std::string text_of(const ncclUniqueId& id) {
  return std::string(id.internal, ::strnlen(id.internal, sizeof id.internal));
}

Result<Options> plain_options(const Environment& env) { return options_for(CommConfig{}, env); }

constexpr std::string_view kFixedScheme = "tcp://";

// Where NCCL_COMM_ID says that ranks meet; empty where it is not set.
Result<std::string> fixed_place(const Environment& env) {
  const auto fixed = env.get("NCCL_COMM_ID");
  if (!fixed) return std::string();
  if (const Status readable = check_targets(*fixed); !readable.ok())
    return readable.within("NCCL_COMM_ID");
  return concat(kFixedScheme, *fixed);
}

Result<std::unique_ptr<Rendezvous>> meet_at_fixed(const std::string& where, int rank, int size,
                                                  const Environment& env) {
  auto meet = make_rendezvous({.rank = rank,
                               .size = size,
                               .where = where,
                               .job = "",
                               .advice = " NCCL_COMM_ID says where rank 0 listens."},
                              env);
  if (!meet.ok()) return meet.status().within("NCCL_COMM_ID");
  return meet;
}

}  // namespace

Result<ncclUniqueId> make_id(const Environment& env) {
  const Result<std::string> fixed = fixed_place(env);
  if (!fixed.ok()) return fixed.status();
  if (!fixed->empty()) return id_of(*fixed);
  const Result<Options> options = plain_options(env);
  if (!options.ok()) return options.status();
  const Result<Key> secret = key_of(env);
  if (!secret.ok()) return secret.status();
  Result<OpenPlace> open = open_place(options->interfaces);
  if (!open.ok()) return open.status();
  Result<ncclUniqueId> id = id_of(fitting_text(open->place));
  if (!id.ok()) return id;
  auto keeper = std::make_shared<Keeper>(std::move(open->listener), known(open->place, *secret),
                                         options->timeout_s);
  Result<std::thread> thread = start_thread([keeper] {
    try {
      keeper->serve();
    } catch (const std::bad_alloc&) {  // those who ask find nobody, and say so
    }
  });
  if (!thread.ok()) return thread.status();
  thread->detach();
  return id;
}

Status check_number(int ranks) {
  if (ranks <= kRanksMax) return {};
  return invalid_argument(
      concat("nranks is ", ranks, "; a communicator has ", kRanksMax, " ranks at most"));
}

void release_id(const ncclUniqueId& id, const Environment& env) {
  Result<Place> keeper = parse_id(text_of(id));
  const Result<Key> secret = key_of(env);
  if (!keeper.ok() || !secret.ok()) return;
  // As the only rank of a job, so that all have been told.
  AtKeeper released(known(keeper.take(), *secret), 0, 1, "nowhere");
  (void)released.announce(Deadline::after(kPatienceSeconds));
}

Result<std::unique_ptr<Rendezvous>> meet_by_id(const ncclUniqueId& id, int rank, int size,
                                               const Options& options, const Environment& env) {
  const Result<std::string> fixed = fixed_place(env);
  if (!fixed.ok()) return fixed.status();
  const std::string text = fixed->empty() ? text_of(id) : *fixed;
  if (text.starts_with(kFixedScheme)) return meet_at_fixed(text, rank, size, env);
  Result<Place> keeper = parse_id(text);
  if (!keeper.ok())
    return invalid_argument(
        "commId was not made by this library's ncclGetUniqueId; make it in one "
        "process, and give all ranks the same 128 bytes");
  if (size == 1) {
    release_id(id, env);
    return make_rendezvous({.rank = rank, .size = size, .where = "", .job = ""}, env);
  }
  const Result<Key> secret = key_of(env);
  if (!secret.ok()) return secret.status();
  const Known by = known(keeper.take(), *secret);
  if (rank != 0)
    return make_store_client({.rank = rank, .size = size, .job = "", .key = by.key},
                             std::make_unique<AtKeeper>(by, rank, size, ""));
  Result<OpenPlace> open = open_place(options.interfaces);
  if (!open.ok()) return open.status();
  const std::string place = id_text(open->place);
  return make_store_server({.rank = rank, .size = size, .job = open->place.job, .key = by.key},
                           std::move(open->listener),
                           std::make_unique<AtKeeper>(by, rank, size, place));
}

}  // namespace weft::nccl
