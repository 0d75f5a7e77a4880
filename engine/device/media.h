// The device memory of a communicator's ranks: made, told to the others, and mapped.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "bootstrap/rendezvous.h"
#include "engine/device/choice.h"
#include "engine/device/gpu.h"
#include "engine/device/leavings.h"
#include "engine/device/relay.h"
#include "engine/device/relay_memory.h"
#include "engine/executor/device_memory.h"

namespace weft {

struct DeviceMediaConfig {
  Rank rank = 0;
  std::string host;     // ranks with equal hosts may map each other's memory
  int64_t process = 0;  // equal where ranks are threads of one process
  DeviceShape shape{};  // equal on all ranks
  // Likewise, where the stream engine is chosen; nullopt: the same.
  std::optional<DeviceShape> stream_shape = std::nullopt;
  std::string wish = "auto";  // equal on all ranks; see choose_device_engine()
  // Whether transports move what relays carry from and into the device's memory: "auto" where they
  // can on all ranks, "off", or "on", which is an error on all where one cannot.
  std::string direct = "auto";
  uint32_t queues = kDeviceQueues;  // see DevicePlace
  // The device, where others of this process may keep it: then what this rank has made stays until
  // none of them uses it any more. Null: it goes with its DeviceMedia.
  std::shared_ptr<Gpu> keep = nullptr;
  // By all ranks, in one all_gather: what carries messages between ranks that cannot map each
  // other's memory. Null: all have to.
  std::function<Result<std::unique_ptr<Media>>(Rendezvous&, const Deadline&)> connect = nullptr;
};

class DeviceMedia {
 public:
  // By all ranks, in some all_gathers: where one fails, all fail, and name it. `device` outlives
  // what is made. Loads all kernels, so that none has to be while others spin. Where some rank
  // cannot map another one's memory, a relay leads from one to the other, and all is made anew.
  static Result<std::unique_ptr<DeviceMedia>> join(Gpu& device, Rendezvous& meet,
                                                   const DeviceMediaConfig& config,
                                                   const Deadline& deadline);
  // REQUIRES: no launch of this rank uses any memory any more, nor one of another rank this one's,
  // unless they share it (DeviceMediaConfig::keep).
  ~DeviceMedia();
  DeviceMedia(const DeviceMedia&) = delete;

  const DeviceMap& map() const { return map_; }
  const DeviceChoice& choice() const { return choice_; }
  // For what else this rank has of the device: it stays as its memory does.
  Leavings& leavings() const;
  // What has to be polled for calls to go on; null: nothing has.
  DeviceRelay* relay() const { return relay_.get(); }
  size_t bytes() const { return map_.layout.bytes() + relay_memory_.device_bytes(); }

 private:
  DeviceMedia(Gpu& device, const DeviceMediaConfig& config);
  struct Greeting;                                // what a rank is
  struct Offer;                                   // what it has made
  struct Own;                                     // this rank's memory
  struct Outcome;                                 // what came of mapping others' memory
  struct Reach;                                   // whether transports reach its memory
  using Pairs = std::set<std::pair<Rank, Rank>>;  // the lower rank first
  static Result<std::unique_ptr<DeviceMedia>> attempt(Gpu& device, Rendezvous& meet,
                                                      const DeviceMediaConfig& config,
                                                      const Deadline& deadline, Pairs& unmapped);
  Result<std::vector<Greeting>> greet(Rendezvous& meet, const DeviceMediaConfig& config,
                                      const Deadline& deadline);
  Status choose(const DeviceMediaConfig& config, const std::vector<Greeting>& all, Pairs& apart);
  bool is_mapped_elsewhere(const std::vector<Greeting>& all) const;
  Status make(const DeviceMediaConfig& config, const std::vector<Greeting>& all, Offer& mine);
  Status make_relay_cells();
  Status connect(Rendezvous& meet, const DeviceMediaConfig& config, const Deadline& deadline);
  Reach try_direct(const Result<std::unique_ptr<Media>>& media, const DeviceMediaConfig& config);
  Result<std::string> agree_on_slots(Rendezvous& meet, const std::vector<Reach>& all,
                                     const Deadline& deadline);
  Outcome meet_peers(const std::vector<Greeting>& all, const std::vector<Offer>& offers);
  void keep(std::shared_ptr<Own> own);
  Result<std::byte*> meet(const Offer& peer, bool same_process);

  Gpu& device_;
  std::shared_ptr<Own> own_;                  // null before it is made
  std::vector<std::shared_ptr<Own>> others_;  // of this process
  std::vector<std::byte*> mapped_;            // those to unmap
  RelayMemory relay_memory_;
  DeviceMap map_;
  DeviceChoice choice_;
  std::unique_ptr<DeviceRelay> relay_;  // goes before its memory
};

}  // namespace weft
