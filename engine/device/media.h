// The device memory of a communicator's ranks: made, told to the others, and mapped.
#pragma once

#include <memory>

#include "base/clock.h"
#include "bootstrap/rendezvous.h"
#include "engine/device/choice.h"
#include "engine/device/device.h"
#include "engine/executor/device_memory.h"

namespace weft {

struct DeviceMediaConfig {
  Rank rank = 0;
  std::string host;           // ranks with equal hosts can map each other's memory
  int64_t process = 0;        // equal where ranks are threads of one process
  DeviceShape shape{};        // equal on all ranks
  std::string wish = "auto";  // equal on all ranks; see choose_device_engine()
  uint32_t queues = 8;        // see DevicePlace
};

class DeviceMedia {
 public:
  // By all ranks, in two all_gathers: where one fails, all fail, and name it. `device` outlives
  // what is made. Loads all kernels, so that none has to be while others spin.
  static Result<std::unique_ptr<DeviceMedia>> join(Device& device, Rendezvous& meet,
                                                   const DeviceMediaConfig& config,
                                                   const Deadline& deadline);
  // REQUIRES: no launch of any rank uses the memory any more.
  ~DeviceMedia();
  DeviceMedia(const DeviceMedia&) = delete;

  const DeviceMap& map() const { return map_; }
  const DeviceChoice& choice() const { return choice_; }

 private:
  DeviceMedia(Device& device, const DeviceMediaConfig& config);
  struct Greeting;
  Status make(Greeting& mine);
  Status meet_peers(const DeviceMediaConfig& config, const std::vector<Greeting>& all);

  Device& device_;
  Bytes own_;
  std::vector<std::byte*> mapped_;  // those to unmap
  DeviceMap map_;
  DeviceChoice choice_;
};

}  // namespace weft
