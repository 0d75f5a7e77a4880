// What the parts of one verbs transport share. Passed by reference; no part owns it.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "base/options.h"
#include "transport/tcp/tcp.h"
#include "transport/verbs/device.h"
#include "transport/verbs/memory.h"

namespace weft::verbs {

class Channel;
class VerbsRecvLink;

// Patience in seconds, and sizes; tests change them.
struct Tuning {
  double grace = 0.1;      // for a peer to say why its queue pair does not answer any more
  double port_down = 2;    // for a port to come back
  double close = 2;        // for what is on its way when the transport is destroyed
  size_t direct = 16384;   // smaller messages are copied instead of registered
  size_t announce = 8192;  // larger ones get a packet of their own with adaptive routing
};

struct Hub {
  Hub(Rank own, const VerbsOptions& wanted, const Tuning& tuned, std::unique_ptr<Device> opened,
      tcp::Hub& set_up)
      : rank(own),
        options(wanted),
        tuning(tuned),
        device(std::move(opened)),
        memory(*device),
        device_memory(*device),
        control(set_up) {}

  // Handles at most one batch of completions; false where there was none.
  bool progress();
  // Something came: who drives the links should look before it sleeps.
  void has_news() { control.news = true; }

  const Rank rank;
  const VerbsOptions options;
  const Tuning tuning;
  const std::unique_ptr<Device> device;
  MemoryCache memory;
  DeviceMemory device_memory;
  tcp::Hub& control;
  std::vector<Channel*> channels;     // by number; null where it is gone
  std::vector<VerbsRecvLink*> owing;  // links that owe credits
};

}  // namespace weft::verbs
