#include "engine/connect.h"

#include <algorithm>

#include "base/log.h"
#include "base/text.h"

namespace weft {
namespace {

// What all ranks know decides.
LinkShape usual_links(const std::vector<Addresses>& addresses) {
  const auto socket_only = [](const Addresses& rank) {
    return rank.count("tcp") > 0 && rank.count("verbs") == 0;
  };
  const bool sockets = std::all_of(addresses.begin(), addresses.end(), socket_only);
  return sockets ? Media::kSocketLinks : Media::kUsualLinks;
}

}  // namespace

Result<Connecting> Connecting::begin(const MakeTransport& make,
                                     const std::vector<std::string>& names,
                                     const std::vector<int>& hosts, const TransportConfig& config) {
  Connecting made;
  made.config_ = config;
  const bool one_host = *std::max_element(hosts.begin(), hosts.end()) == 0;
  const bool shm_leads_everywhere =
      one_host && std::find(names.begin(), names.end(), "shm") != names.end();
  for (const std::string& name : names) {
    const bool alone = names.size() == 1;
    if (shm_leads_everywhere && name != "shm") continue;
    auto transport = make(name, config);
    if (!transport.ok() && name == "verbs" && !alone) {
      log_line(LogLevel::info, config.rank,
               concat("verbs is not used: ", transport.status().message()));
      continue;
    }
    if (!transport.ok()) return transport.status().within("transport " + name);
    made.transports_.push_back(transport.take());
  }
  return made;
}

Addresses Connecting::addresses() const {
  Addresses all;
  for (const auto& transport : transports_)
    all[std::string(transport->name())] = transport->address();
  return all;
}

Result<std::unique_ptr<Media>> Connecting::finish(const std::vector<Addresses>& addresses) {
  for (const auto& transport : transports_) {
    std::vector<std::string> of_ranks;
    for (const Addresses& rank : addresses) {
      const auto found = rank.find(std::string(transport->name()));
      of_ranks.push_back(found == rank.end() ? "" : found->second);
    }
    WEFT_TRY(transport->join(std::move(of_ranks)));
  }
  return std::make_unique<Media>(config_.rank, config_.size, std::move(transports_),
                                 config_.window_bytes, usual_links(addresses));
}

}  // namespace weft
