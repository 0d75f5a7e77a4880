#include "transport/tcp/tcp.h"

#include <algorithm>
#include <limits>

#include "base/text.h"
#include "transport/backends.h"
#include "transport/shape.h"

namespace weft::tcp {
namespace {

constexpr int kStreamsMax = 64;
constexpr size_t kListenersMax = 32;
constexpr int kChecksPerVanish = 6;

// A link-local address says nothing without the caller's own interface, so it is left out.
std::vector<SocketAddress> listening_addresses(const std::vector<Interface>& interfaces) {
  std::vector<SocketAddress> addresses;
  for (const Interface& interface : interfaces) {
    const SocketAddress& address = interface.address;
    if (!address.is_link_local() && addresses.size() < kListenersMax) addresses.push_back(address);
  }
  return addresses;
}

}  // namespace

TcpTransport::TcpTransport(const TransportConfig& config, const Times& times)
    : config_(config),
      hub_(config.rank, badge_of(config.job, config.key), times),
      pairs_(static_cast<size_t>(config.size)),
      reception_(hub_, *this) {}

// Says goodbye, and stays until what was sent has reached the other hosts: a socket that is closed
// while its peer still writes to it loses what the peer has not received yet.
TcpTransport::~TcpTransport() {
  if (!hub_.poller.here()) return;
  closing_ = true;
  TcpTransport::abandon();
  dials_.clear();
  wanted_.clear();
  for (const auto& pair : pairs_)
    if (pair) pair->say_bye();
  see_off();
}

// Peers may be slow, as long as they go on taking what is on its way to them.
void TcpTransport::see_off() {
  size_t least = std::numeric_limits<size_t>::max();
  Deadline deadline;
  while (!deadline.expired()) {
    size_t left = 0;
    bool settled = true;
    for (const auto& pair : pairs_) {
      if (!pair || pair->close_settled()) continue;
      settled = false;
      left += pair->on_their_way();
    }
    if (settled) return;
    if (left < least) deadline = Deadline::after(hub_.times.close);
    least = std::min(least, left);
    hub_.poller.run(1);
  }
}

Status TcpTransport::open() {
  Result<std::vector<Interface>> interfaces = list_interfaces(config_.interfaces);
  if (!interfaces.ok()) return interfaces.status();
  interfaces_ = interfaces.take();
  const std::vector<SocketAddress> addresses = listening_addresses(interfaces_);
  if (addresses.empty())
    return unsupported(
        concat("No network interface has an address that other ranks could use: those of \"",
               config_.interfaces, "\" have link-local ones at most. Name others (",
               kInterfacesSetting, ")."));
  WEFT_TRY(hub_.poller.open());
  if (config_.encrypt) {
    auto tls = TlsContext::make(config_.key.derive("tls", config_.job));
    if (!tls.ok()) return tls.status();
    hub_.tls = tls.take();
  }
  return reception_.open(addresses);
}

std::string TcpTransport::address() const {
  return encode(RankAddress{config_.host, config_.streams, reception_.listeners()});
}

Status TcpTransport::join(std::vector<std::string> addresses) {
  if (addresses.size() != static_cast<size_t>(config_.size))
    return invalid_argument("There are " + std::to_string(addresses.size()) + " addresses for " +
                            std::to_string(config_.size) + " ranks.");
  for (size_t i = 0; i < addresses.size(); ++i) {
    if (addresses[i].empty()) continue;
    if (const Status status = decode_rank_address(addresses[i]).status(); !status.ok())
      return status.within("rank " + std::to_string(i));
  }
  addresses_ = std::move(addresses);
  return {};
}

bool TcpTransport::reaches(Rank peer) const {
  const auto index = static_cast<size_t>(peer);
  return peer != config_.rank && index < addresses_.size() && !addresses_[index].empty();
}

Pair& TcpTransport::pair(Rank peer) {
  std::unique_ptr<Pair>& place = pairs_[static_cast<size_t>(peer)];
  if (!place) place = std::make_unique<Pair>(hub_, peer);
  return *place;
}

Pair& TcpTransport::wanted_pair(Rank peer) {
  WEFT_CHECK(reaches(peer));
  Pair& found = pair(peer);
  if (!found.wanted) {
    found.wanted = true;
    wanted_.push_back(peer);
    look_ = true;
  }
  return found;
}

SendLink& TcpTransport::open_send(Rank peer, LinkId id, LinkShape shape) {
  return wanted_pair(peer).open_send(id, shape);
}

RecvLink& TcpTransport::open_recv(Rank peer, LinkId id, LinkShape shape) {
  return wanted_pair(peer).open_recv(id, shape);
}

void TcpTransport::dial_missing() {
  look_ = false;
  for (const Rank peer : wanted_) {
    Pair& missing = pair(peer);
    const Result<RankAddress> address = decode_rank_address(addresses_[static_cast<size_t>(peer)]);
    missing.limit_streams(std::min(config_.streams, address->streams));
    for (int stream = 0; stream < missing.streams() && missing.status().ok(); ++stream)
      if (!missing.has_stream(stream)) dial(peer, static_cast<uint32_t>(stream), *address);
  }
  std::erase_if(wanted_,
                [&](Rank peer) { return pair(peer).complete() || !pair(peer).status().ok(); });
}

void TcpTransport::dial(Rank peer, uint32_t stream, const RankAddress& address) {
  if (dials_.contains({peer, stream}) || reception_.expects(peer, stream)) return;
  Hello hello;
  hello.job = hub_.badge.job;
  hello.from = config_.rank;
  hello.to = peer;
  hello.stream = stream;
  hello.streams = static_cast<uint32_t>(config_.streams);
  dials_[{peer, stream}] =
      std::make_unique<Dial>(hub_, hello, candidates(address, config_.host, interfaces_),
                             [this, line = Line(peer, stream)](Result<Connection> connection) {
                               connected(line, std::move(connection));
                             });
}

void TcpTransport::connected(Line line, Result<Connection> connection) {
  const auto [peer, stream] = line;
  drop_dial(line);
  if (!connection.ok()) return pair(peer).refused(connection.status());
  reception_.dismiss(peer, stream);
  pair(peer).attach(static_cast<int>(stream), connection.take());
}

void TcpTransport::drop_dial(Line line) {
  const auto at = dials_.find(line);
  if (at == dials_.end()) return;
  // Else it could still say hello in this very round, and be welcomed beside the call that is
  // taken.
  at->second->hang_up();
  hub_.poller.bury(std::move(at->second));
  dials_.erase(at);
}

Answer TcpTransport::admit(const Hello& hello) {
  if (hello.to != config_.rank || hello.from < 0 || hello.from >= config_.size ||
      hello.from == config_.rank)
    return Answer::other_rank;
  Pair& caller = pair(hello.from);
  caller.limit_streams(std::min(
      config_.streams, static_cast<int>(std::clamp(hello.streams, 1u, uint32_t{kStreamsMax}))));
  if (closing_ || !caller.status().ok() || hello.stream >= static_cast<uint32_t>(caller.streams()))
    return Answer::closed;
  if (caller.has_stream(static_cast<int>(hello.stream))) return Answer::connected;
  if (hello.from < config_.rank) return Answer::welcome;
  // Our own call goes first, but only where the other may be about to take it.
  const auto own = dials_.find({hello.from, hello.stream});
  if (own != dials_.end() && own->second->spoken()) return Answer::crossed;
  drop_dial({hello.from, hello.stream});
  return Answer::welcome;
}

void TcpTransport::arrived(const Hello& hello, Connection connection) {
  drop_dial({hello.from, hello.stream});
  pair(hello.from).attach(static_cast<int>(hello.stream), std::move(connection));
}

void TcpTransport::left(const Hello& hello) {
  pair(hello.from).caller_left();
  if (pair(hello.from).wanted) look_ = true;
}

void TcpTransport::tick() {
  const int64_t now = steady_clock().now_ns();
  for (auto at = dials_.begin(); at != dials_.end();) {
    const auto next = std::next(at);  // a dial may end with its tick
    at->second->tick(now);
    at = next;
  }
  reception_.tick(now);
  if (now < next_check_ns_) return;
  next_check_ns_ = now + static_cast<int64_t>(hub_.times.vanish / kChecksPerVanish * 1e9);
  for (const auto& pair : pairs_)
    if (pair) pair->check_vanished();
  drop_dials_of_lost();
}

// Nobody needs the other streams of a pair that has ended.
void TcpTransport::drop_dials_of_lost() {
  for (auto at = dials_.begin(); at != dials_.end();) {
    const Line line = at->first;
    ++at;
    if (!pair(line.first).status().ok()) drop_dial(line);
  }
}

void TcpTransport::feed_starving() {
  std::erase_if(hub_.owing, [](Pair* pair) { return !pair->feed_starving(); });
}

void TcpTransport::move(int timeout_ms) {
  if (look_) dial_missing();
  tick();
  feed_starving();
  hub_.poller.run(hub_.news ? 0 : timeout_ms);
}

int TcpTransport::sleep_ms(const Deadline& deadline) const {
  int64_t due = next_check_ns_;
  for (const auto& [line, dial] : dials_) due = std::min(due, dial->due_ns());
  due = std::min(due, reception_.due_ns());
  const int64_t left = std::max<int64_t>(0, due - steady_clock().now_ns());
  const int64_t left_ms = std::min<int64_t>((left + 999'999) / 1'000'000, 60'000);
  return deadline.left_ms(static_cast<int>(left_ms));
}

void TcpTransport::wait(const Deadline& deadline) {
  if (!hub_.news) {
    if (look_) dial_missing();
    move(sleep_ms(deadline));
  }
  hub_.news = false;
}

void TcpTransport::abandon() {
  for (const auto& pair : pairs_)
    if (pair) pair->abandon();
}

void TcpTransport::tell(Rank peer, NoteKind kind, std::string_view text) {
  const auto index = static_cast<size_t>(peer);
  if (index < pairs_.size() && pairs_[index]) pairs_[index]->tell(kind, text);
}

std::optional<Note> TcpTransport::hear() {
  if (hub_.heard.empty()) return std::nullopt;
  Note note = std::move(hub_.heard.front());
  hub_.heard.pop_front();
  pairs_[static_cast<size_t>(note.from)]->heard(note.kind);
  return note;
}

bool TcpTransport::acquainted(Rank peer) const {
  const auto index = static_cast<size_t>(peer);
  return index < pairs_.size() && pairs_[index] != nullptr;
}

Status TcpTransport::peer_status(Rank peer) const {
  const auto index = static_cast<size_t>(peer);
  return index < pairs_.size() && pairs_[index] ? pairs_[index]->status() : Status();
}

double TcpTransport::silence_s(Rank peer) const {
  const auto index = static_cast<size_t>(peer);
  double longest = index < pairs_.size() && pairs_[index] ? pairs_[index]->silence_s() : 0;
  for (auto at = dials_.lower_bound({peer, 0}); at != dials_.end() && at->first.first == peer; ++at)
    longest = std::max(longest, at->second->silent_s());
  return longest;
}

Result<std::unique_ptr<Transport>> make_tcp(const TransportConfig& config, const Times& times) {
  WEFT_TRY(check_rank(config));
  if (config.streams < 1 || config.streams > kStreamsMax)
    return invalid_argument("There cannot be " + std::to_string(config.streams) +
                            " connections per pair of ranks over TCP; give 1 to " +
                            std::to_string(kStreamsMax) + ".");
  auto transport = std::make_unique<TcpTransport>(config, times);
  WEFT_TRY(transport->open());
  return Result<std::unique_ptr<Transport>>(std::move(transport));
}

}  // namespace weft::tcp

namespace weft {

Result<std::unique_ptr<Transport>> make_tcp(const TransportConfig& config) {
  return tcp::make_tcp(config, tcp::Times());
}

}  // namespace weft
