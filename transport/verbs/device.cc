#include "transport/verbs/device.h"

#include <arpa/inet.h>
#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/clock.h"
#include "base/name_filter.h"
#include "base/text.h"

namespace weft::verbs {
namespace {

constexpr int kQueueEntries = 4096;  // of a completion queue, where one link does not need more
constexpr int kBatch = 16;
constexpr std::string_view kRule = " Name others with WEFT_IB_HCA.";

constexpr std::string_view kNoCopies =
    "This kernel does not copy pinned memory when a process forks, so that data could go to pages "
    "that the process does not have any more. RDMA needs Linux 5.13 or newer, or RDMAV_FORK_SAFE=1 "
    "where no child needs the parent's memory; WEFT_TRANSPORT=tcp or shm goes on without it.";

std::string port_name(std::string_view device, int port) { return concat(device, " port ", port); }

// Words are devices, or ports of devices: "mlx5", "mlx5_0:1".
bool chosen(const NameFilter& filter, std::string_view device, int port) {
  return filter.empty() || filter.accepts_if([&](std::string_view word, bool exact) {
    const std::string_view name = take_word(word, ':');
    const bool named = exact ? device == name : device.starts_with(name);
    return named && (word.empty() || word == std::to_string(port));
  });
}

bool is_ipv4(const ibv_gid& gid) {
  static constexpr uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::equal(kMapped, kMapped + 12, gid.raw);
}

bool is_link_local(const ibv_gid& gid) { return gid.raw[0] == 0xfe && (gid.raw[1] & 0xc0) == 0x80; }

// How well an address suits, where the user has not chosen.
int worth(const ibv_gid_entry& entry) {
  const bool v2 = entry.gid_type == IBV_GID_TYPE_ROCE_V2;
  if (entry.gid_type == IBV_GID_TYPE_IB) return 1;
  if (is_link_local(entry.gid)) return v2 ? 2 : 1;
  return (v2 ? 5 : 3) + (is_ipv4(entry.gid) ? 1 : 0);
}

// Others have no reliable queue pairs, or no writes with an immediate.
bool is_infiniband_or_roce(const ibv_device& device, const ibv_port_attr& port) {
  return device.transport_type == IBV_TRANSPORT_IB &&
         (port.link_layer == IBV_LINK_LAYER_INFINIBAND ||
          port.link_layer == IBV_LINK_LAYER_ETHERNET);
}

std::string_view kind_text(const Place& place) {
  if (place.infiniband) return "InfiniBand";
  return place.gid_type == IBV_GID_TYPE_ROCE_V2 ? "RoCE v2" : "RoCE v1";
}

std::string prefix_text(const ibv_gid& gid) {
  return hex(std::as_bytes(std::span(gid.raw).first<8>()));
}

std::string_view state_text(ibv_port_state state) {
  switch (state) {
    case IBV_PORT_DOWN: return "down";
    case IBV_PORT_INIT: return "initializing";
    case IBV_PORT_ARMED: return "armed, but not active";
    default: return "not active";
  }
}

Status make_nonblocking(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) return system_error("fcntl");
  return {};
}

}  // namespace

struct Device::Candidate {
  ibv_device* device;
  ibv_context* context;
  std::string name;
  uint8_t port;
};

std::string to_string(const ibv_gid& gid) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  return ::inet_ntop(AF_INET6, gid.raw, text.data(), text.size());
}

// LIDs are unique within a subnet only, and a kernel routes no IPv4 address to an IPv6 one.
std::string obstacle(const Place& a, const Place& b) {
  if (a.infiniband != b.infiniband || a.gid_type != b.gid_type)
    return concat("one is ", kind_text(a), ", the other ", kind_text(b));
  if (a.infiniband && a.gid.global.subnet_prefix != b.gid.global.subnet_prefix)
    return concat("their InfiniBand subnets have the prefixes ", prefix_text(a.gid), " and ",
                  prefix_text(b.gid));
  if (a.gid_type == IBV_GID_TYPE_ROCE_V2 && is_ipv4(a.gid) != is_ipv4(b.gid))
    return concat("of their addresses ", to_string(a.gid), " and ", to_string(b.gid),
                  " only one is IPv4 (WEFT_IB_GID_INDEX chooses)");
  return {};
}

Result<std::unique_ptr<Device>> Device::open(std::shared_ptr<Verbs> verbs,
                                             const VerbsOptions& options, int turn) {
  int count = 0;
  ibv_device** const list = verbs->get_device_list(&count);
  if (!list)
    return unsupported(concat("RDMA devices cannot be listed: ", std::strerror(errno),
                              ". Is the kernel's module ib_uverbs loaded?"));
  if (count > 0 && !verbs->copies_on_fork()) {
    verbs->free_device_list(list);
    return unsupported(std::string(kNoCopies));
  }
  const NameFilter filter(options.devices);
  std::vector<Candidate> candidates;
  std::vector<ibv_context*> contexts;
  std::string left_out;
  const auto leave_out = [&](const std::string& what) {
    left_out.append(left_out.empty() ? "" : ", ").append(what);
  };
  for (int i = 0; i < count; ++i) {
    const std::string name = verbs->get_device_name(list[i]);
    ibv_context* const context = verbs->open_device(list[i]);
    ibv_device_attr limits{};
    if (!context || verbs->query_device(context, &limits) != 0) {
      leave_out(concat(name, " cannot be opened (", std::strerror(errno), ")"));
      if (context) verbs->close_device(context);
      continue;
    }
    contexts.push_back(context);
    for (uint8_t port = 1; port <= limits.phys_port_cnt; ++port) {
      ibv_port_attr attributes{};
      if (verbs->query_port(context, port, &attributes) != 0)
        leave_out(port_name(name, port) + " cannot be asked for its state");
      else if (!chosen(filter, name, port))
        leave_out(port_name(name, port) + " is not in WEFT_IB_HCA");
      else if (!is_infiniband_or_roce(*list[i], attributes))
        leave_out(port_name(name, port) + " is neither InfiniBand nor RoCE");
      else if (attributes.state != IBV_PORT_ACTIVE)
        leave_out(concat(port_name(name, port), " is ", state_text(attributes.state)));
      else
        candidates.push_back({list[i], context, name, port});
    }
  }
  ibv_context* used = nullptr;
  std::unique_ptr<Device> device;
  if (!candidates.empty()) {
    const Candidate& taken = candidates[static_cast<size_t>(turn) % candidates.size()];
    used = taken.context;
    device.reset(new Device(verbs, taken));
  }
  for (ibv_context* const context : contexts)
    if (context != used) verbs->close_device(context);
  verbs->free_device_list(list);
  if (count == 0) return unsupported("There is no RDMA device on this host.");
  if (!device)
    return unsupported(concat("No port of an RDMA device can be used: ", left_out, ".", kRule));
  WEFT_TRY(device->prepare(options));
  return device;
}

Device::Device(std::shared_ptr<Verbs> verbs, const Candidate& candidate)
    : verbs_(std::move(verbs)),
      context_(candidate.context),
      port_(candidate.port),
      completions_(kBatch) {
  place_.port = port_name(candidate.name, port_);
}

Device::~Device() {
  if (!here()) return;
  for (const Queue& queue : queues_) {
    verbs_->ack_cq_events(queue.cq, queue.events);
    verbs_->destroy_cq(queue.cq);
  }
  if (events_) verbs_->destroy_comp_channel(events_);
  if (pd_) verbs_->dealloc_pd(pd_);
  verbs_->close_device(context_);
}

Status Device::failure(std::string_view call) const {
  const std::string_view remedy = errno == ENOMEM ? " (ulimit -l has to allow its memory)" : "";
  return system_error(concat(place_.port, ": ", call, remedy));
}

Status Device::prepare(const VerbsOptions& options) {
  if (verbs_->query_device(context_, &limits_) != 0) return failure("ibv_query_device");
  if (verbs_->query_port(context_, port_, &attributes_) != 0) return failure("ibv_query_port");
  place_.infiniband = attributes_.link_layer == IBV_LINK_LAYER_INFINIBAND;
  place_.mtu = attributes_.active_mtu;
  place_.lid = attributes_.lid;
  place_.queues = options.queues;
  WEFT_TRY(choose_gid(options.gid_index));
  pd_ = verbs_->alloc_pd(context_);
  if (!pd_) return failure("ibv_alloc_pd");
  events_ = verbs_->create_comp_channel(context_);
  if (!events_) return failure("ibv_create_comp_channel");
  WEFT_TRY(make_nonblocking(events_->fd));
  return make_nonblocking(context_->async_fd);
}

Status Device::choose_gid(int wanted) {
  // The call gives all ports' entries, or none where they do not fit.
  size_t most = 0;
  for (int port = 1; port <= limits_.phys_port_cnt; ++port) {
    ibv_port_attr attributes{};
    if (verbs_->query_port(context_, static_cast<uint8_t>(port), &attributes) == 0)
      most += static_cast<size_t>(std::max(attributes.gid_tbl_len, 0));
  }
  std::vector<ibv_gid_entry> entries(std::max<size_t>(most, 1));
  const ssize_t count = verbs_->query_gid_table(context_, entries.data(), entries.size());
  if (count < 0) {
    errno = static_cast<int>(-count);
    return failure("ibv_query_gid_table");
  }
  entries.resize(static_cast<size_t>(count));
  const ibv_gid_entry* best = nullptr;
  for (const ibv_gid_entry& entry : entries) {
    constexpr uint32_t kMostIndex = UINT8_MAX;  // all that an address handle has room for
    if (entry.port_num != port_ || entry.gid_index > kMostIndex) continue;
    if (wanted >= 0 ? entry.gid_index == static_cast<uint32_t>(wanted)
                    : !best || worth(entry) > worth(*best))
      best = &entry;
  }
  if (best) {
    gid_index_ = static_cast<int>(best->gid_index);
    place_.gid = best->gid;
    place_.gid_type = static_cast<int>(best->gid_type);
    return {};
  }
  if (wanted < 0 && place_.infiniband) return {};  // reached by its LID alone
  return unsupported(concat(place_.port, " has no address ",
                            wanted < 0 ? "at all" : concat("with index ", wanted),
                            "; show_gids lists them, WEFT_IB_GID_INDEX chooses one."));
}

Result<ibv_cq*> Device::reserve(int entries) {
  for (Queue& queue : queues_) {
    if (queue.room < entries) continue;
    queue.room -= entries;
    return queue.cq;
  }
  const int size = std::max(entries, std::min(kQueueEntries, limits_.max_cqe));
  ibv_cq* const cq = verbs_->create_cq(context_, size, events_);
  if (!cq) return failure(concat("ibv_create_cq of ", size, " entries"));
  queues_.push_back({cq, size - entries, 0});
  return cq;
}

std::span<const ibv_wc> Device::poll() {
  for (const Queue& queue : queues_) {
    const int count = verbs_->poll_cq(queue.cq, kBatch, completions_.data());
    if (count > 0) return {completions_.data(), static_cast<size_t>(count)};
    if (count < 0 && fatal_.empty())
      fatal_ = concat(place_.port, " cannot be asked for completions any more");
  }
  return {};
}

void Device::arm() {
  for (const Queue& queue : queues_)
    if (verbs_->req_notify_cq(queue.cq) != 0 && fatal_.empty())
      fatal_ = concat(place_.port, " cannot tell of completions any more");
}

void Device::take_events() {
  ibv_cq* cq = nullptr;
  while (verbs_->get_cq_event(events_, &cq) == 0)
    for (Queue& queue : queues_) queue.events += queue.cq == cq;
}

void Device::take_async_events() {
  ibv_async_event event{};
  while (verbs_->get_async_event(context_, &event) == 0) {
    take(event);
    verbs_->ack_async_event(&event);
  }
}

// What queue pairs suffer their completions tell, too.
void Device::take(const ibv_async_event& event) {
  const bool mine = event.element.port_num == port_;
  switch (event.event_type) {
    case IBV_EVENT_DEVICE_FATAL: fatal_ = concat(place_.port, " has failed for good"); break;
    case IBV_EVENT_CQ_ERR:
      fatal_ = concat("a completion queue of ", place_.port, " has failed");
      break;
    case IBV_EVENT_PORT_ERR:
      if (mine && down_since_ns_ == 0) down_since_ns_ = steady_clock().now_ns();
      break;
    case IBV_EVENT_PORT_ACTIVE:
      if (mine) down_since_ns_ = 0;
      break;
    default: break;
  }
}

}  // namespace weft::verbs
