#include "transport/shm/address.h"

#include <sys/stat.h>
#include <unistd.h>

#include <sstream>

namespace weft::shm {
namespace {

constexpr std::string_view kForm = "shm1";  // changes with whatever the two ends must agree on

uint64_t network_namespace() {
  struct stat about {};
  return ::stat("/proc/self/ns/net", &about) == 0 ? about.st_ino : 0;
}

}  // namespace

Address Address::here(std::string_view host, std::string_view socket) {
  return {std::string(host), network_namespace(), ::geteuid(), std::string(socket)};
}

std::string Address::to_string() const {
  std::ostringstream text;
  text << kForm << ' ' << network << ' ' << user << ' ' << socket << ' ' << host;
  return text.str();
}

std::optional<Address> Address::parse(std::string_view text) {
  std::istringstream in{std::string(text)};
  std::string form;
  Address address;
  if (!(in >> form >> address.network >> address.user >> address.socket) || form != kForm)
    return std::nullopt;
  if (in.get() != ' ') return std::nullopt;
  std::getline(in, address.host, '\0');
  if (address.socket.size() > 100) return std::nullopt;
  return address;
}

}  // namespace weft::shm
