#include "transport/sim/sim.h"

#include "transport/sim/state.h"

namespace weft {
namespace {

class SimSend final : public SendLink {
 public:
  SimSend(sim::State& state, sim::Channel& channel, LinkShape shape)
      : SendLink(shape), state_(state), channel_(channel) {}

  Bytes reserve() override { return state_.reserve(channel_); }
  void commit(size_t bytes, uint64_t tag) override { state_.commit(channel_, bytes, tag); }
  std::optional<Ticket> send(ConstBytes memory, uint64_t tag) override {
    return state_.send(channel_, memory, tag);
  }
  bool done(Ticket ticket) override { return state_.sent(channel_, ticket); }
  LinkTraits traits() const override { return state_.options().traits; }
  const Status& status() const override { return status_ = state_.send_status(channel_); }

 private:
  sim::State& state_;
  sim::Channel& channel_;
  mutable Status status_;
};

class SimRecv final : public RecvLink {
 public:
  SimRecv(sim::State& state, sim::Channel& channel, LinkShape shape)
      : RecvLink(shape), state_(state), channel_(channel) {}

  const Message* peek() override {
    message_ = state_.peek(channel_);
    return message_ ? &*message_ : nullptr;
  }
  void release() override { state_.release(channel_); }
  std::optional<Ticket> post(Bytes memory) override { return state_.post(channel_, memory); }
  std::optional<Placed> done(Ticket ticket) override { return state_.placed(channel_, ticket); }
  LinkTraits traits() const override { return state_.options().traits; }
  const Status& status() const override { return status_ = state_.recv_status(channel_); }

 private:
  sim::State& state_;
  sim::Channel& channel_;
  std::optional<Message> message_;
  mutable Status status_;
};

class SimTransport final : public Transport {
 public:
  SimTransport(std::shared_ptr<SimNet> net, Rank rank)
      : net_(std::move(net)), state_(net_->state()), rank_(rank) {}
  ~SimTransport() override { state_.leave(rank_); }

  std::string_view name() const override { return "sim"; }
  std::string address() const override { return address_of(rank_); }

  Status join(std::vector<std::string> addresses) override {
    if (addresses.size() != static_cast<size_t>(state_.size()))
      return invalid_argument("join() was given " + std::to_string(addresses.size()) +
                              " addresses for " + std::to_string(state_.size()) + " ranks.");
    for (Rank rank = 0; rank < state_.size(); ++rank) {
      const std::string& address = addresses[static_cast<size_t>(rank)];
      if (!address.empty() && address != address_of(rank))
        return invalid_argument("'" + address + "' is not the simulated address of rank " +
                                std::to_string(rank) + ".");
      reached_.push_back(!address.empty() && rank != rank_);
    }
    return Status();
  }
  bool reaches(Rank peer) const override {
    return peer >= 0 && static_cast<size_t>(peer) < reached_.size() &&
           reached_[static_cast<size_t>(peer)];
  }

  SendLink& open_send(Rank peer, LinkId id, LinkShape shape) override {
    WEFT_CHECK(reaches(peer));
    sim::Channel& channel = state_.open(rank_, peer, id, shape, true);
    auto& end = sends_[{peer, id}];
    if (!end) end = std::make_unique<SimSend>(state_, channel, shape);
    return *end;
  }
  RecvLink& open_recv(Rank peer, LinkId id, LinkShape shape) override {
    WEFT_CHECK(reaches(peer));
    sim::Channel& channel = state_.open(peer, rank_, id, shape, false);
    auto& end = recvs_[{peer, id}];
    if (!end) end = std::make_unique<SimRecv>(state_, channel, shape);
    return *end;
  }

  bool has_windows() const override { return state_.options().windows; }
  const Window* open_window(Rank peer) override {
    if (!has_windows() || (peer != rank_ && !reaches(peer))) return nullptr;
    const auto [it, added] = windows_.try_emplace(peer);
    if (added) it->second.asked_ns = clock().now_ns();
    map_windows();
    return &it->second.window;
  }

  std::optional<bool> reads_memory(Rank peer) const override {
    if (!has_windows() || rank_ == state_.options().blind) return false;
    const auto found = windows_.find(peer);
    if (found == windows_.end() || !found->second.window.memory) return std::nullopt;
    return true;
  }
  bool is_readable(ConstBytes memory) const override {
    return has_windows() && (memory.empty() || rank_ != state_.options().hidden);
  }
  Result<bool> read_memory(Rank peer, uint64_t address, Bytes into) override {
    return state_.read(rank_, peer, reinterpret_cast<const std::byte*>(address), into);
  }

  void poll() override {
    if (const auto& between = state_.options().between) between(rank_);
    state_.poll();
    map_windows();
  }
  void wait(const Deadline& deadline) override { state_.wait(rank_, deadline); }
  bool shares_cpu(Rank peer) const override {
    const int cpus = state_.options().cpus;
    return cpus > 0 && peer % cpus == rank_ % cpus;
  }
  void wake(Rank peer) override { state_.ring(peer); }
  void wake_self() override { state_.ring(rank_); }
  void abandon() override { state_.abandon(rank_); }
  void tell(Rank peer, NoteKind kind, std::string_view text) override {
    state_.tell(rank_, peer, kind, text);
  }
  std::optional<Note> hear() override { return state_.hear(rank_); }
  Status peer_status(Rank peer) const override { return state_.peer_status(rank_, peer); }
  const Clock& clock() const override { return state_.clock(); }

 private:
  struct Mapping {
    Window window;
    int64_t asked_ns = 0;
  };
  using Key = std::pair<Rank, LinkId>;

  static std::string address_of(Rank rank) { return "sim:" + std::to_string(rank); }

  // By the owning thread, so that window.memory may be read without a lock.
  void map_windows() {
    for (auto& [peer, mapping] : windows_)
      if (!mapping.window.memory)
        mapping.window.memory = state_.window(rank_, peer, mapping.asked_ns);
  }

  const std::shared_ptr<SimNet> net_;
  sim::State& state_;
  const Rank rank_;
  std::vector<bool> reached_;
  std::map<Key, std::unique_ptr<SimSend>> sends_;
  std::map<Key, std::unique_ptr<SimRecv>> recvs_;
  std::map<Rank, Mapping> windows_;
};

}  // namespace

SimNet::SimNet(int size, const SimOptions& options)
    : state_(std::make_unique<sim::State>(size, options)) {}
SimNet::~SimNet() = default;

const Clock& SimNet::clock() const { return state_->clock(); }
void SimNet::kill(Rank rank) { state_->kill(rank); }
void SimNet::cut(Rank a, Rank b) { state_->cut(a, b); }
void SimNet::slow(Rank rank, int factor) { state_->slow(rank, factor); }
uint64_t SimNet::arrivals() const { return state_->arrivals(); }

Result<std::unique_ptr<Transport>> make_sim(std::shared_ptr<SimNet> net,
                                            const TransportConfig& config) {
  WEFT_TRY(net->state().enter(config));
  return std::unique_ptr<Transport>(std::make_unique<SimTransport>(std::move(net), config.rank));
}

}  // namespace weft
