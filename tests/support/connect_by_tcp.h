// Media of ranks that all are on hosts of their own, as DeviceMediaConfig::connect makes them.
#pragma once

#include <numeric>
#include <string>

#include "base/text.h"
#include "engine/connect.h"
#include "transport/backends.h"

namespace weft::test {

// By the transport of this name alone.
inline Result<std::unique_ptr<Media>> connect_by(const std::string& name, const MakeTransport& make,
                                                 Rendezvous& meet, const Deadline& deadline) {
  TransportConfig config;
  config.rank = meet.rank();
  config.size = meet.size();
  config.job = "device calls";
  config.host = concat("host of ", meet.rank());
  config.window_bytes = 4096;
  std::vector<int> hosts(static_cast<size_t>(meet.size()));
  std::iota(hosts.begin(), hosts.end(), 0);
  auto begun = Connecting::begin(make, {name}, hosts, config);
  if (!begun.ok()) return begun.status();
  const auto texts = meet.all_gather(begun->addresses().at(name), deadline);
  if (!texts.ok()) return texts.status();
  std::vector<Addresses> addresses;
  for (const std::string& text : *texts) addresses.push_back({{name, text}});
  return begun->finish(addresses);
}

inline Result<std::unique_ptr<Media>> connect_by_tcp(Rendezvous& meet, const Deadline& deadline) {
  return connect_by("tcp", make_transport, meet, deadline);
}

}  // namespace weft::test
