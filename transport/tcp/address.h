// A rank's address text, and which of a peer's addresses to try in which order. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/socket.h"

namespace weft::tcp {

struct RankAddress {
  std::string host;                      // TransportConfig::host
  int streams = 1;                       // TransportConfig::streams
  std::vector<SocketAddress> listeners;  // in the order of preference of who listens
};

std::string encode(const RankAddress& address);
Result<RankAddress> decode_rank_address(std::string_view text);

// The peer's listeners in the order to try. On the same host: loopback first, which is always up.
// Else: those in a subnet of one of mine; then the others in their order; then those that I have,
// too, which likely name something of mine (a bridge for containers has the same number on every
// host); then loopback, which helps only where one machine plays several hosts.
std::vector<SocketAddress> candidates(const RankAddress& peer, std::string_view my_host,
                                      const std::vector<Interface>& mine);

}  // namespace weft::tcp
