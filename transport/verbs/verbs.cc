#include "transport/verbs/verbs.h"

#include <fcntl.h>

#include <algorithm>

#include "base/log.h"
#include "base/text.h"
#include "transport/backends.h"
#include "transport/shape.h"

namespace weft::verbs {
namespace {

constexpr int kBatchesPerPoll = 8;
constexpr int64_t kControlEvery_ns = 1'000'000;
constexpr double kUncertain_s = 0.02;  // between two looks while a loss is not certain

TransportConfig control_config(TransportConfig config) {
  config.job += "/verbs";
  config.streams = 1;
  return config;
}

// Whether links will find memory to register: they are opened later, when it is too late for
// another transport. Tried is what a usual link to and one from a peer take: a ring has as many.
Status try_memory(Device& device, Rank me) {
  constexpr LinkShape kUsual{8, 64 << 10};
  constexpr size_t kLink = size_t{kUsual.slots} * (kHeaderBytes + kUsual.slot_bytes);
  const Status status = OwnMemory::make(device, 2 * kLink).status();
  if (status.ok()) return {};
  const std::string why = concat("The memory of links cannot be registered: ", status.message());
  log_line(LogLevel::warning, me, concat("RDMA is not used. ", why));
  return unsupported(why);
}

}  // namespace

class VerbsTransport::Watched final : public tcp::Pollable {
 public:
  Watched(tcp::Hub& hub, void (Device::*take)(), Device& device)
      : hub_(hub), take_(take), device_(device), fd_(hub.poller) {}
  Status watch(int fd) {
    // A copy, since the poller closes what it watches.
    Fd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (!copy.valid()) return system_error("copy a descriptor of the RDMA device");
    return fd_.watch(std::move(copy), *this);
  }
  void ready(uint32_t) override {
    (device_.*take_)();
    hub_.news = true;
  }

 private:
  tcp::Hub& hub_;
  void (Device::*const take_)();
  Device& device_;
  tcp::WatchedFd fd_;
};

VerbsTransport::VerbsTransport(const TransportConfig& config, const Tuning& tuning,
                               std::unique_ptr<Device> device,
                               std::unique_ptr<tcp::TcpTransport> control)
    : config_(config),
      control_(std::move(control)),
      hub_(config.rank, config.verbs, tuning, std::move(device), control_->hub()),
      pairs_(static_cast<size_t>(config.size)) {}

// Stays until what was sent has arrived; then the connections over TCP say goodbye, and so no peer
// believes the end before it has the data.
VerbsTransport::~VerbsTransport() {
  if (!hub_.device->here()) return;
  VerbsTransport::abandon();
  const Deadline deadline = Deadline::after(hub_.tuning.close);
  const auto settled = [](Pair* pair) { return pair->settled(); };
  while (!std::all_of(made_.begin(), made_.end(), settled) && !deadline.expired()) poll();
}

Status VerbsTransport::open() {
  WEFT_TRY(control_->open());
  Device& device = *hub_.device;
  watched_.push_back(std::make_unique<Watched>(control_->hub(), &Device::take_events, device));
  WEFT_TRY(watched_.back()->watch(device.event_fd()));
  watched_.push_back(
      std::make_unique<Watched>(control_->hub(), &Device::take_async_events, device));
  WEFT_TRY(watched_.back()->watch(device.async_fd()));
  log_line(LogLevel::info, config_.rank,
           concat("verbs uses ", device.place().port, ", address ", device.gid_index(),
                  " of its table"));
  return {};
}

std::string VerbsTransport::address() const {
  return encode(RankPlace{hub_.device->place(), control_->address()});
}

Status VerbsTransport::join(std::vector<std::string> addresses) {
  std::vector<std::string> control;
  Thinned left_out;
  for (size_t i = 0; i < addresses.size(); ++i) {
    places_.emplace_back();
    control.emplace_back();
    if (addresses[i].empty()) continue;
    Result<RankPlace> rank = decode_rank_place(addresses[i]);
    if (!rank.ok()) return rank.status().within(concat("rank ", i));
    places_.back() = rank->place;
    const Place& here = hub_.device->place();
    // Who cannot be reached over RDMA has no use for a connection.
    const std::string why = obstacle(here, rank->place);
    if (why.empty())
      control.back() = rank->control;
    else if (left_out.next())
      log_line(LogLevel::info, config_.rank,
               concat("verbs does not lead from ", here.port, " to rank ", i, ", ",
                      rank->place.port, ": ", why, left_out.place()));
  }
  return control_->join(std::move(control));
}

bool VerbsTransport::reaches(Rank peer) const { return control_->reaches(peer); }

Pair& VerbsTransport::pair(Rank peer) {
  WEFT_CHECK(reaches(peer));
  const auto index = static_cast<size_t>(peer);
  if (!pairs_[index]) {
    pairs_[index] = std::make_unique<Pair>(hub_, *control_, peer, places_[index]);
    made_.push_back(pairs_[index].get());
  }
  return *pairs_[index];
}

SendLink& VerbsTransport::open_send(Rank peer, LinkId id, LinkShape shape) {
  return pair(peer).open_send(id, shape);
}

RecvLink& VerbsTransport::open_recv(Rank peer, LinkId id, LinkShape shape) {
  return pair(peer).open_recv(id, shape);
}

void VerbsTransport::move_data() {
  for (int i = 0; i < kBatchesPerPoll && hub_.progress(); ++i) {
  }
  std::erase_if(hub_.owing, [](VerbsRecvLink* link) { return !link->feed_starving(); });
}

// Everything but TCP's own affairs.
void VerbsTransport::drive() {
  move_data();
  for (Pair* pair : made_) pair->poll();
}

// What comes over TCP is rare and costs system calls, one for each peer, which messages would have
// to wait for. Links that are being opened look for themselves.
void VerbsTransport::poll() {
  const int64_t now_ns = steady_clock().now_ns();
  if (now_ns < control_due_ns_) return move_data();
  control_->poll();
  drive();
  control_due_ns_ = now_ns + kControlEvery_ns;
}

// Sleeps only after it has looked once more behind arming the event: what completes later makes the
// descriptor readable.
void VerbsTransport::wait(const Deadline& deadline) {
  drive();
  if (!control_->hub().news) {
    hub_.device->arm();
    drive();
  }
  const bool uncertain =
      hub_.device->down_since_ns() != 0 || std::any_of(made_.begin(), made_.end(), [](Pair* pair) {
        return pair->suspicious() && pair->status().ok();
      });
  const double left_s = static_cast<double>(deadline.left_ns()) * 1e-9;
  control_->wait(uncertain ? Deadline::after(std::min(left_s, kUncertain_s)) : deadline);
}

void VerbsTransport::abandon() {
  for (Pair* pair : made_) pair->abandon();
}

Status VerbsTransport::peer_status(Rank peer) const {
  const auto index = static_cast<size_t>(peer);
  if (index >= pairs_.size()) return {};
  return pairs_[index] ? pairs_[index]->status() : control_->peer_status(peer);
}

Result<std::unique_ptr<Transport>> make_verbs(const TransportConfig& config,
                                              std::shared_ptr<Verbs> verbs, const Tuning& tuning) {
  WEFT_TRY(check_rank(config));
  if (config.encrypt)
    return unsupported(
        "RDMA cannot be encrypted, and WEFT_ENCRYPT asks for that; use tcp between hosts.");
  auto device = Device::open(std::move(verbs), config.verbs, config.local_rank);
  if (!device.ok()) return device.status();
  WEFT_TRY(try_memory(**device, config.rank));
  auto control = std::make_unique<tcp::TcpTransport>(control_config(config), tcp::Times());
  auto transport =
      std::make_unique<VerbsTransport>(config, tuning, device.take(), std::move(control));
  WEFT_TRY(transport->open());
  return Result<std::unique_ptr<Transport>>(std::move(transport));
}

}  // namespace weft::verbs

namespace weft {

Result<std::unique_ptr<Transport>> make_verbs(const TransportConfig& config) {
  auto library = verbs::load_library();
  if (!library.ok()) return library.status();
  return verbs::make_verbs(config, library.take(), {});
}

}  // namespace weft
