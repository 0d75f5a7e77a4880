#include "transport/tcp/address.h"

#include <algorithm>

#include "base/parse.h"
#include "base/text.h"

namespace weft::tcp {
namespace {

constexpr std::string_view kWord = "weft-tcp/1";

ConstBytes number(const SocketAddress& address) {
  if (address.family() == AF_INET) {
    const auto* in4 = reinterpret_cast<const sockaddr_in*>(address.data());
    return std::as_bytes(std::span(&in4->sin_addr, 1));
  }
  const auto* in6 = reinterpret_cast<const sockaddr_in6*>(address.data());
  return std::as_bytes(std::span(&in6->sin6_addr, 1));
}

// How many leading bits two addresses share; -1 where they are of different families.
int common_bits(const SocketAddress& a, const SocketAddress& b) {
  if (a.family() != b.family()) return -1;
  const ConstBytes left = number(a), right = number(b);
  int bits = 0;
  for (size_t i = 0; i < left.size(); ++i) {
    const auto difference = static_cast<uint8_t>(left[i] ^ right[i]);
    if (difference) return bits + __builtin_clz(difference) - 24;
    bits += 8;
  }
  return bits;
}

int order(const SocketAddress& address, bool same_host, const std::vector<Interface>& mine) {
  if (address.is_loopback()) return same_host ? 0 : 4;
  bool near = false;
  for (const Interface& interface : mine) {
    const int bits = common_bits(address, interface.address);
    if (bits == static_cast<int>(number(address).size()) * 8) return same_host ? 1 : 3;
    near = near || (interface.prefix_bits > 0 && bits >= interface.prefix_bits);
  }
  return near ? 1 : 2;
}

}  // namespace

std::string encode(const RankAddress& address) {
  std::string text(kWord);
  text.append(" ").append(std::to_string(address.streams));
  text.append(" ").append(std::to_string(address.listeners.size()));
  for (const SocketAddress& listener : address.listeners)
    text.append(" ").append(listener.to_string());
  return text.append(" ").append(address.host);  // last: it may contain anything
}

Result<RankAddress> decode_rank_address(std::string_view text) {
  const auto bad = [&](std::string_view why) {
    std::string message = "\"";
    message.append(text).append("\" is not the address of a rank over TCP: ").append(why);
    return invalid_argument(message.append(". Do all ranks use the same version of weft?"));
  };
  std::string_view rest = text;
  const auto word = [&rest] { return take_word(rest, ' '); };
  if (word() != kWord) return bad("it does not begin with its format's name");
  const Result<int64_t> streams = parse_int(word(), 1, 1024);
  const Result<int64_t> count = parse_int(word(), 1, 1024);
  if (!streams.ok() || !count.ok()) return bad("its counts are not numbers");
  RankAddress address;
  address.streams = static_cast<int>(*streams);
  for (int64_t i = 0; i < *count; ++i) {
    const Result<SocketAddress> listener = SocketAddress::parse(word());
    if (!listener.ok()) return bad(listener.status().message());
    if (listener->family() == AF_UNIX) return bad("it names a Unix socket");
    address.listeners.push_back(*listener);
  }
  address.host = rest;
  return address;
}

std::vector<SocketAddress> candidates(const RankAddress& peer, std::string_view my_host,
                                      const std::vector<Interface>& mine) {
  std::vector<SocketAddress> sorted = peer.listeners;
  const bool same_host = peer.host == my_host;
  std::stable_sort(sorted.begin(), sorted.end(), [&](const auto& a, const auto& b) {
    return order(a, same_host, mine) < order(b, same_host, mine);
  });
  return sorted;
}

}  // namespace weft::tcp
