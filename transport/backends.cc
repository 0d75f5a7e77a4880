#include "transport/backends.h"

#include <string>

namespace weft {

Result<std::unique_ptr<Transport>> make_transport(std::string_view name,
                                                  const TransportConfig& config) {
  if (name == "shm") return make_shm(config);
  if (name == "tcp") return make_tcp(config);
  if (name == "verbs") return make_verbs(config);
  return invalid_argument("There is no transport \"" + std::string(name) +
                          "\"; use \"shm\", \"tcp\" or \"verbs\".");
}

}  // namespace weft
