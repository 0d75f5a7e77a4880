// list_interfaces of base/socket.h.
#include <ifaddrs.h>
#include <net/if.h>
#include <net/route.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <fstream>
#include <memory>
#include <numeric>
#include <set>
#include <sstream>
#include <tuple>

#include "base/name_filter.h"
#include "base/socket.h"
#include "base/text.h"

namespace weft {
namespace {

// Interfaces that a default route leaves by.
std::set<std::string> default_route_interfaces() {
  std::set<std::string> names;
  std::string line;
  std::ifstream v4("/proc/net/route");
  while (std::getline(v4, line)) {
    std::istringstream fields(line);
    std::string name, target, gateway, flags, references, use, metric, mask;
    if (fields >> name >> target >> gateway >> flags >> references >> use >> metric >> mask &&
        target == "00000000" && mask == "00000000")
      names.insert(name);
  }
  std::ifstream v6("/proc/net/ipv6_route");
  while (std::getline(v6, line)) {
    std::istringstream fields(line);
    std::string target, length, source, source_length, gateway, metric, references, use, name;
    unsigned flags = 0;
    if (fields >> target >> length >> source >> source_length >> gateway >> metric >> references >>
            use >> std::hex >> flags >> name &&
        length == "00" && target == std::string(32, '0') && !(flags & RTF_REJECT))
      names.insert(name);
  }
  return names;
}

int prefix_bits(const sockaddr* mask, int family) {
  if (!mask) return 0;
  const void* const bytes =
      family == AF_INET
          ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(mask)->sin_addr)
          : static_cast<const void*>(&reinterpret_cast<const sockaddr_in6*>(mask)->sin6_addr);
  const auto* const begin = static_cast<const uint8_t*>(bytes);
  return std::accumulate(begin, begin + (family == AF_INET ? 4 : 16), 0,
                         [](int bits, uint8_t byte) { return bits + std::popcount(byte); });
}

Result<std::vector<Interface>> all_interfaces() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return system_error("getifaddrs");
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  const std::set<std::string> default_routes = default_route_interfaces();
  std::vector<Interface> interfaces;
  for (const ifaddrs* entry = list; entry; entry = entry->ifa_next) {
    if (!entry->ifa_addr || !(entry->ifa_flags & IFF_UP)) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    Interface interface;
    interface.name = entry->ifa_name;
    interface.address = SocketAddress::from(
        entry->ifa_addr, family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    interface.loopback = entry->ifa_flags & IFF_LOOPBACK;
    interface.default_route = default_routes.contains(interface.name);
    interface.prefix_bits = prefix_bits(entry->ifa_netmask, family);
    interfaces.push_back(std::move(interface));
  }
  std::stable_sort(interfaces.begin(), interfaces.end(), [](const auto& a, const auto& b) {
    const auto key = [](const Interface& i) {
      return std::tuple(i.loopback, i.address.is_link_local(), !i.default_route,
                        i.address.family() != AF_INET);
    };
    return key(a) < key(b);
  });
  return interfaces;
}

}  // namespace

Result<std::vector<Interface>> list_interfaces(std::string_view filter) {
  Result<std::vector<Interface>> all = all_interfaces();
  if (!all.ok() || filter.empty()) return all;
  const NameFilter wanted(filter);
  std::vector<Interface> chosen;
  std::set<std::string> names;
  for (const Interface& interface : *all) {
    names.insert(interface.name);
    if (wanted.accepts(interface.name)) chosen.push_back(interface);
  }
  if (!chosen.empty()) return chosen;
  std::string text;
  for (const std::string& name : names) text.append(text.empty() ? "" : ", ").append(name);
  return invalid_argument(concat("No network interface that is up matches \"", filter, "\" (",
                                 kInterfacesSetting, "); there are: ", text, "."));
}

}  // namespace weft
