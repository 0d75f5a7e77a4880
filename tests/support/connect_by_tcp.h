// Media of ranks that all are on hosts of their own, as DeviceMediaConfig::connect makes them.
#pragma once

#include <numeric>

#include "base/text.h"
#include "engine/connect.h"
#include "transport/backends.h"

namespace weft::test {

inline Result<std::unique_ptr<Media>> connect_by_tcp(Rendezvous& meet, const Deadline& deadline) {
  TransportConfig config;
  config.rank = meet.rank();
  config.size = meet.size();
  config.job = "device calls";
  config.host = concat("host of ", meet.rank());
  config.window_bytes = 4096;
  std::vector<int> hosts(static_cast<size_t>(meet.size()));
  std::iota(hosts.begin(), hosts.end(), 0);
  auto begun = Connecting::begin(make_transport, {"tcp"}, hosts, config);
  if (!begun.ok()) return begun.status();
  const auto texts = meet.all_gather(begun->addresses().at("tcp"), deadline);
  if (!texts.ok()) return texts.status();
  std::vector<Addresses> addresses;
  for (const std::string& text : *texts) addresses.push_back({{"tcp", text}});
  return begun->finish(addresses);
}

}  // namespace weft::test
