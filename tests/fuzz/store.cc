// The store's server of a job of two ranks, over Unix sockets, and two callers that do what the
// input says, step by step: connect, send bytes, send offers that are proven or not, whole or in
// parts, hang up. Whoever proves nothing changes nothing.
#include "bootstrap/store.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <utility>

#include "base/log.h"
#include "base/random.h"
#include "base/text.h"
#include "bootstrap/connection.h"
#include "tests/fuzz/script.h"
#include "tests/fuzz/target.h"

namespace {

using namespace weft;

constexpr const char* kJob = "the job";

class Caller {
 public:
  Caller(const SocketAddress& store, std::set<std::string>& proven)
      : store_(store), proven_(proven) {}

  void act(fuzz::Script& script) {
    switch (script.number() % 8) {
      case 0: return connect();
      case 1: return send(script.take(script.number()));
      case 2: return send(offer(script, true));
      case 3: return send(offer(script, false));
      case 4: {
        later_ = offer(script, true);
        const std::string begin = later_.substr(0, script.number());
        later_.erase(0, begin.size());
        return send(begin);
      }
      case 5: return send(std::exchange(later_, {}));
      case 6: return connection_.close();
      default: (void)::shutdown(connection_.socket().get(), SHUT_WR);
    }
  }

 private:
  void connect() {
    Result<Fd> socket = start_connect(store_);
    connection_ = socket.ok() ? Connection(socket.take()) : Connection();
    challenge_.reset();
  }
  void send(std::string_view bytes) {
    if (!connection_.open() || bytes.empty()) return;
    connection_.queue(std::string(bytes));
    (void)connection_.flush();
  }
  // Takes its fields off the script; of rank 1's first meeting where those are zeros. A rank of a
  // job of another size is one of it: else the store would wait for one to tell, in real time.
  std::string offer(fuzz::Script& script, bool prove) {
    wire::Offer offer;
    const bool other = script.number() % 8 == 7;
    offer.size = other ? 3 : 2;
    offer.rank = (uint32_t{1} ^ script.number()) % (other ? offer.size : 256);
    offer.round = other ? 0 : script.number();
    offer.patience_ms = uint32_t{60'000} >> std::min<int>(script.number(), 31);
    offer.process = script.number();
    offer.job = script.number() % 8 == 7 ? "another" : kJob;
    offer.blob = script.take(script.number());
    hear();
    if (!prove || !challenge_) return encode(offer);
    offer.proof = wire::prove(offer, wire::meeting_key(Key(), kJob), *challenge_);
    proven_.insert(offer.blob);  // whatever job it names: it has the key
    return encode(offer);
  }
  void hear() {
    (void)connection_.receive();
    for (auto frame = connection_.next(wire::kRefusalBytes); frame.ok() && *frame;
         frame = connection_.next(wire::kRefusalBytes))
      if ((**frame).type == wire::Type::challenge)
        challenge_ = wire::parse_challenge((**frame).payload);
  }

  const SocketAddress store_;
  std::set<std::string>& proven_;  // what was proven of all callers' blobs
  Connection connection_;
  std::optional<Nonce> challenge_;
  std::string later_;
};

// Time stands still until `act` says that there is no more to do. The store asks twice before it
// sleeps: whether its deadline has passed, and how long it may sleep. Callers act in between, and
// it does not sleep at all.
class Time final : public Clock {
 public:
  explicit Time(std::function<bool()> act) : act_(std::move(act)) {}
  Deadline deadline() {
    asked_ = false;
    const Deadline deadline = Deadline::after(1, *this);
    asked_ = false;
    return deadline;
  }
  int64_t now_ns() const override {
    asked_ = !asked_;
    if (asked_) return over_ ? kEnd_ns : 0;
    over_ = !act_();
    return kEnd_ns;
  }

 private:
  static constexpr int64_t kEnd_ns = 2'000'000'000;
  const std::function<bool()> act_;
  mutable bool asked_ = false;
  mutable bool over_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  set_log_level(LogLevel::error);
  constexpr int kMeetings = 3;
  const SocketAddress address = SocketAddress::abstract_unix(concat("weft-fuzz-", random_name()));
  const auto store = make_store_server({.rank = 0, .size = 2, .job = kJob},
                                       listen_on(address).take(), known_place(Place{}));
  fuzz::Script script(fuzz::text_of(data, size));
  std::set<std::string> proven;
  std::array<Caller, 2> callers{Caller(address, proven), Caller(address, proven)};
  Time time([&] {
    if (script.empty()) return false;
    callers[script.number() % 2].act(script);
    return true;
  });
  for (int meeting = 0; meeting < kMeetings; ++meeting) {
    const auto all = store->all_gather("mine", time.deadline());
    if (!all.ok() && proven.empty() && all.status().code() != Code::timeout) __builtin_trap();
    if (!all.ok()) break;
    if (all->size() != 2 || (*all)[0] != "mine" || !proven.contains((*all)[1])) __builtin_trap();
  }
  return 0;
}
