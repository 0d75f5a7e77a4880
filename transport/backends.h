// The media there are, by name.
#pragma once

#include <memory>

#include "transport/transport.h"

namespace weft {

// Shared memory between threads and processes of one host. transport/shm/
Result<std::unique_ptr<Transport>> make_shm(const TransportConfig& config);
// TCP, IPv4 and IPv6, between any hosts. transport/tcp/
Result<std::unique_ptr<Transport>> make_tcp(const TransportConfig& config);
// RDMA, InfiniBand or RoCE; an error says why it cannot be used here. transport/verbs/
Result<std::unique_ptr<Transport>> make_verbs(const TransportConfig& config);

// By name: "shm", "tcp" or "verbs"; an error lists what there is.
Result<std::unique_ptr<Transport>> make_transport(std::string_view name,
                                                  const TransportConfig& config);

}  // namespace weft
