// The device memory of a communicator's ranks: made, told to the others, and mapped.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "bootstrap/rendezvous.h"
#include "engine/device/choice.h"
#include "engine/device/gpu.h"
#include "engine/executor/device_memory.h"

namespace weft {

struct DeviceMediaConfig {
  Rank rank = 0;
  std::string host;     // ranks with equal hosts can map each other's memory
  int64_t process = 0;  // equal where ranks are threads of one process
  DeviceShape shape{};  // equal on all ranks
  // Likewise, where the stream engine is chosen; nullopt: the same.
  std::optional<DeviceShape> stream_shape = std::nullopt;
  std::string wish = "auto";  // equal on all ranks; see choose_device_engine()
  uint32_t queues = 8;        // see DevicePlace
  // The device, where others of this process may keep it: then what this rank has made stays until
  // none of them uses it any more. Null: it goes with its DeviceMedia.
  std::shared_ptr<Gpu> keep = nullptr;
};

class DeviceMedia {
 public:
  // By all ranks, in three all_gathers: where one fails, all fail, and name it. `device` outlives
  // what is made. Loads all kernels, so that none has to be while others spin.
  static Result<std::unique_ptr<DeviceMedia>> join(Gpu& device, Rendezvous& meet,
                                                   const DeviceMediaConfig& config,
                                                   const Deadline& deadline);
  // REQUIRES: no launch of this rank uses any memory any more, nor one of another rank this one's,
  // unless they share it (DeviceMediaConfig::keep).
  ~DeviceMedia();
  DeviceMedia(const DeviceMedia&) = delete;

  const DeviceMap& map() const { return map_; }
  const DeviceChoice& choice() const { return choice_; }

 private:
  DeviceMedia(Gpu& device, const DeviceMediaConfig& config);
  struct Greeting;  // what a rank is
  struct Offer;     // what it has made
  struct Own;       // this rank's memory
  Result<std::vector<Greeting>> greet(Rendezvous& meet, const DeviceMediaConfig& config,
                                      const Deadline& deadline);
  Status choose(const DeviceMediaConfig& config, const std::vector<Greeting>& all);
  Status make(const DeviceMediaConfig& config, Offer& mine);
  Status meet_peers(const std::vector<Greeting>& all, const std::vector<Offer>& offers);
  Result<std::byte*> meet(const Offer& peer, bool same_process);

  Gpu& device_;
  std::shared_ptr<Own> own_;                  // null before it is made
  std::vector<std::shared_ptr<Own>> others_;  // of this process
  std::vector<std::byte*> mapped_;            // those to unmap
  DeviceMap map_;
  DeviceChoice choice_;
};

}  // namespace weft
