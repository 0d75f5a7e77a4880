#include "nccl/ids.h"

#include <poll.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <thread>

#include "base/parse.h"
#include "base/socket.h"
#include "base/text.h"
#include "bootstrap/place.h"
#include "bootstrap/store.h"
#include "nccl/settings.h"

namespace weft::nccl {
namespace {

constexpr size_t kTextBytes = NCCL_UNIQUE_ID_BYTES - 1;  // and a zero
constexpr char kMagic[8] = {'w', 'e', 'f', 't', '-', 'i', 'd', '1'};
constexpr double kPatienceSeconds = 2;  // with one who has connected
constexpr size_t kGuests = 256;         // at a time

// What a rank says to the thread that keeps the id, and what it answers: fields of fixed size, so
// that bytes from strangers need no parsing. Numbers are text.
struct Question {
  char magic[8] = {};
  char key[48] = {};
  char rank[16] = {};
  char size[16] = {};
  char place[512] = {};  // rank 0's: where it listens; else empty
};
struct Answered {
  char place[512] = {};  // empty: not known yet
};

template <size_t N>
Status put(char (&field)[N], const std::string& text) {
  if (text.size() >= N) return internal_error(concat("\"", text, "\" is too long for a unique id"));
  std::memcpy(field, text.c_str(), text.size() + 1);
  return {};
}

template <size_t N>
std::string get(const char (&field)[N]) {
  return std::string(field, ::strnlen(field, N));
}

template <class T>
Bytes bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

// The process that made an id: tells ranks where rank 0 is. Whoever connects has a moment to ask;
// strangers that say nothing, or something else, keep nobody else waiting.
class Keeper {
 public:
  Keeper(Fd listener, std::string key) : listener_(std::move(listener)), key_(std::move(key)) {}

  void serve() {
    while (!all_told()) {
      std::vector<pollfd> polled{{listener_.get(), POLLIN, 0}};
      for (const Guest& guest : guests_) polled.push_back({guest.socket.get(), POLLIN, 0});
      ::poll(polled.data(), polled.size(), guests_.empty() ? -1 : 100);
      for (size_t i = 1; i < polled.size(); ++i)
        if (polled[i].revents || guests_[i - 1].patience.expired()) serve(guests_[i - 1]);
      std::erase_if(guests_, [](const Guest& guest) { return !guest.socket.valid(); });
      if (polled[0].revents) welcome();
    }
  }

 private:
  struct Guest {
    Fd socket;
    Deadline patience;
    Question question = {};
    size_t got = 0;  // bytes of it
  };

  void welcome() {
    Result<Fd> socket = accept_from(listener_);
    if (socket.ok() && socket->valid())
      guests_.push_back({socket.take(), Deadline::after(kPatienceSeconds)});
    else if (!socket.ok())  // no descriptor is left: not again at once
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (guests_.size() > kGuests) guests_.erase(guests_.begin());
  }

  // Takes what has come; once all of it has, answers. Either way, or without patience, it goes.
  void serve(Guest& guest) {
    const Bytes rest = bytes_of(guest.question).subspan(guest.got);
    const ssize_t count = ::recv(guest.socket.get(), rest.data(), rest.size(), MSG_DONTWAIT);
    const bool nothing_yet = count < 0 && (errno == EAGAIN || errno == EINTR);
    if (count > 0) guest.got += static_cast<size_t>(count);
    const bool whole = guest.got == sizeof guest.question;
    if (whole) reply(guest);
    if (whole || guest.patience.expired() || (count <= 0 && !nothing_yet)) guest.socket.reset();
  }

  void reply(const Guest& guest) {
    const Question& question = guest.question;
    if (std::memcmp(question.magic, kMagic, sizeof kMagic) != 0 || get(question.key) != key_)
      return;  // a stranger
    if (const std::string place = get(question.place); !place.empty()) {
      place_ = place;
      told_.clear();
      const Result<int64_t> size = parse_int(get(question.size), 1, 1 << 30);
      size_ = size.ok() ? static_cast<size_t>(*size) : 0;
    }
    Answered answered;
    std::memcpy(answered.place, place_.c_str(), std::min(place_.size(), sizeof answered.place - 1));
    const Status sent =
        send_all(guest.socket, bytes_of(answered), Deadline::after(kPatienceSeconds));
    if (sent.ok() && !place_.empty()) told_.insert(get(question.rank));
  }

  bool all_told() const { return size_ > 0 && told_.size() >= size_; }

  const Fd listener_;
  const std::string key_;
  std::vector<Guest> guests_;
  std::string place_;
  size_t size_ = 0;
  std::set<std::string> told_;  // ranks that know the place, rank 0 too
};

// A rank's end of the same.
class AtKeeper final : public Announcement {
 public:
  AtKeeper(Place keeper, int rank, int size, std::string place)
      : keeper_(std::move(keeper)), rank_(rank), size_(size), place_(std::move(place)) {}

  Status announce(const Deadline& deadline) override {
    Result<std::string> told = internal_error("nobody was asked");
    do {
      told = ask(deadline);
    } while (!told.ok() && !deadline.expired() && pause());
    return told.ok() ? Status() : told.status();
  }

  Result<std::optional<Place>> look(const Deadline& deadline) override {
    if (!found_) {
      Result<std::string> told = ask(deadline);
      if (!told.ok()) return Status(Code::system, std::string(told.status().message()));
      if (told->empty()) return std::optional<Place>();
      Result<Place> place = parse_id(*told);
      if (!place.ok()) return place.status();
      found_ = place.take();
    }
    return found_;
  }

  std::string advice() const override {
    return " The process that called ncclGetUniqueId must still be there, and rank 0 must have "
           "called "
           "ncclCommInitRank.";
  }

 private:
  static bool pause() {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return true;
  }

  // The first of its addresses that answers.
  Result<std::string> ask(const Deadline& deadline) {
    Result<std::string> told = invalid_argument("The unique id has no address.");
    for (const SocketAddress& address : keeper_.addresses) {
      told = ask_at(address, deadline);
      if (told.ok()) break;
    }
    return told;
  }

  Result<std::string> ask_at(const SocketAddress& address, const Deadline& deadline) {
    const double left_s = static_cast<double>(deadline.left_ns()) * 1e-9;
    const Deadline patience = Deadline::after(std::min(kPatienceSeconds, left_s));
    const auto failed = [&](const Status& why) {
      return why.within(concat("The maker of the unique id, at ", address.to_string()));
    };
    Result<Fd> socket = start_connect(address);
    if (!socket.ok()) return failed(socket.status());
    pollfd connecting{socket->get(), POLLOUT, 0};
    if (::poll(&connecting, 1, patience.left_ms(2000)) <= 0)
      return failed(Status(Code::system, "it does not answer"));
    if (const Status why = connect_error(*socket); !why.ok()) return failed(why);
    Question question;
    std::memcpy(question.magic, kMagic, sizeof kMagic);
    WEFT_TRY(put(question.key, keeper_.job));
    WEFT_TRY(put(question.rank, std::to_string(rank_)));
    WEFT_TRY(put(question.size, std::to_string(size_)));
    WEFT_TRY(put(question.place, place_));
    Answered reply;
    if (const Status why = send_all(*socket, bytes_of(question), patience); !why.ok())
      return failed(why);
    if (const Status why = recv_all(*socket, bytes_of(reply), patience); !why.ok())
      return failed(why);
    return get(reply.place);
  }

  const Place keeper_;
  const int rank_, size_;
  const std::string place_;
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

Result<Options> plain_options(const Environment& env) { return options_for(CommConfig{}, env); }

}  // namespace

Result<ncclUniqueId> make_id(const Environment& env) {
  if (const auto fixed = env.get("NCCL_COMM_ID")) return id_of(concat("tcp://", *fixed));
  const Result<Options> options = plain_options(env);
  if (!options.ok()) return options.status();
  Result<OpenPlace> open = open_place(options->interfaces);
  if (!open.ok()) return open.status();
  Result<ncclUniqueId> id = id_of(fitting_text(open->place));
  if (!id.ok()) return id;
  std::thread([keeper = std::make_shared<Keeper>(std::move(open->listener), open->place.job)] {
    keeper->serve();
  }).detach();
  return id;
}

void release_id(const ncclUniqueId& id) {
  Result<Place> keeper = parse_id(get(id.internal));
  // As the only rank of a job, so that all have been told.
  if (keeper.ok())
    (void)AtKeeper(keeper.take(), 0, 1, "nowhere").look(Deadline::after(kPatienceSeconds));
}

Result<std::unique_ptr<Rendezvous>> meet_by_id(const ncclUniqueId& id, int rank, int size,
                                               const Options& options, const Environment& env) {
  std::string text = get(id.internal);
  if (const auto fixed = env.get("NCCL_COMM_ID")) text = concat("tcp://", *fixed);
  if (text.starts_with("tcp://"))
    return make_rendezvous({.rank = rank, .size = size, .where = text, .job = ""}, env);
  Result<Place> keeper = parse_id(text);
  if (!keeper.ok())
    return invalid_argument(
        "commId was not made by this library's ncclGetUniqueId; make it in one "
        "process, and give all ranks the same 128 bytes");
  if (size == 1) {
    release_id(id);
    return make_rendezvous({.rank = rank, .size = size, .where = "", .job = ""}, env);
  }
  const Result<Key> key = key_of(env);
  if (!key.ok()) return key.status();
  if (rank != 0)
    return make_store_client({.rank = rank, .size = size, .job = "", .key = *key},
                             std::make_unique<AtKeeper>(keeper.take(), rank, size, ""));
  Result<OpenPlace> open = open_place(options.interfaces);
  if (!open.ok()) return open.status();
  const std::string place = id_text(open->place);
  return make_store_server({.rank = rank, .size = size, .job = open->place.job, .key = *key},
                           std::move(open->listener),
                           std::make_unique<AtKeeper>(keeper.take(), rank, size, place));
}

}  // namespace weft::nccl
