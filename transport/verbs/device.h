// The port that a rank uses, opened: its context, protection domain and completion queues.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/options.h"
#include "base/origin_process.h"
#include "transport/verbs/api.h"

namespace weft::verbs {

// How a peer finds this rank's queue pairs; part of its address.
struct Place {
  std::string port;  // "mlx5_0 port 1", for messages
  bool infiniband = false;
  int gid_type = 0;  // ibv_gid_type
  int mtu = IBV_MTU_1024;
  int queues = 1;  // VerbsOptions::queues
  uint16_t lid = 0;
  ibv_gid gid{};
};

std::string to_string(const ibv_gid& gid);  // "::ffff:10.0.0.1"

// Why queue pairs of these two cannot be connected; empty where they can.
std::string obstacle(const Place& a, const Place& b);

class Device {
 public:
  // The `turn`-th of the ports that are up and match the options, counted round; an error lists
  // what there is and why it was not taken.
  static Result<std::unique_ptr<Device>> open(std::shared_ptr<Verbs> verbs,
                                              const VerbsOptions& options, int turn);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  Verbs& verbs() const { return *verbs_; }
  // Whether this is no forked child, whose calls would take apart what its parent uses.
  bool here() const { return process_.here(); }
  ibv_pd* pd() const { return pd_; }
  const Place& place() const { return place_; }
  const ibv_device_attr& limits() const { return limits_; }
  uint8_t port() const { return port_; }
  int gid_index() const { return gid_index_; }
  // Bytes of a message at most; 0 where the driver does not say.
  uint32_t message_max() const { return attributes_.max_msg_sz; }
  // Whether packets need the global header even inside a subnet.
  bool always_global() const { return attributes_.flags & IBV_QPF_GRH_REQUIRED; }

  // What this call of libibverbs, or what it was to do, failed with, from errno as it is now.
  Status failure(std::string_view call) const;

  // A completion queue with room for so many entries more, which are then taken.
  Result<ibv_cq*> reserve(int entries);
  // What has completed, at most one batch; it stays valid until the next call.
  std::span<const ibv_wc> poll();
  // The next completion makes event_fd() readable.
  void arm();
  int event_fd() const { return events_->fd; }
  void take_events();

  // Descriptor of asynchronous events, and what they say, taken from it.
  int async_fd() const { return context_->async_fd; }
  void take_async_events();
  // Why no queue pair of this device will work any more, if so.
  const std::string& fatal() const { return fatal_; }
  // Since when the port has been down on steady_clock(), 0 while it is up.
  int64_t down_since_ns() const { return down_since_ns_; }

 private:
  struct Candidate;
  struct Queue {
    ibv_cq* cq;
    int room;
    unsigned events;
  };
  Device(std::shared_ptr<Verbs> verbs, const Candidate& candidate);
  Status prepare(const VerbsOptions& options);
  Status choose_gid(int wanted);
  void take(const ibv_async_event& event);

  const OriginProcess process_;
  const std::shared_ptr<Verbs> verbs_;
  ibv_context* const context_;
  const uint8_t port_;
  ibv_device_attr limits_{};
  ibv_port_attr attributes_{};
  Place place_;
  int gid_index_ = 0;
  ibv_pd* pd_ = nullptr;
  ibv_comp_channel* events_ = nullptr;
  std::vector<Queue> queues_;
  std::vector<ibv_wc> completions_;
  std::string fatal_;
  int64_t down_since_ns_ = 0;
};

}  // namespace weft::verbs
