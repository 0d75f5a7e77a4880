// Where a rank is reached through shared memory, and which ranks can reach it at all.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weft::shm {

// Ranks share memory where all but `socket` is equal: the same host, and there the same user (who
// may map) and the same network namespace (to which names of abstract sockets belong).
struct Address {
  std::string host;
  uint64_t network = 0;
  uid_t user = 0;
  std::string socket;  // abstract name it listens on

  static Address here(std::string_view host, std::string_view socket);
  static std::optional<Address> parse(std::string_view text);
  std::string to_string() const;
  bool same_place(const Address& other) const {
    return host == other.host && network == other.network && user == other.user;
  }
};

}  // namespace weft::shm
