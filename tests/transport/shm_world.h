// Two ranks over shared memory, driven by one thread.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "transport/backends.h"

namespace weft::shm::test {

inline TransportConfig config(Rank rank, std::string job = "job") {
  TransportConfig config;
  config.rank = rank;
  config.size = 2;
  config.job = std::move(job);
  config.host = "a host with spaces";
  config.window_bytes = 64 << 10;
  return config;
}

inline std::unique_ptr<Transport> make(const TransportConfig& config) {
  Result<std::unique_ptr<Transport>> made = make_shm(config);
  WEFT_CHECK(made.ok());
  return made.take();
}

inline void join(Transport& a, Transport& b) {
  const std::vector<std::string> addresses{a.address(), b.address()};
  EXPECT_TRUE(a.join(addresses).ok());
  EXPECT_TRUE(b.join(addresses).ok());
}

// Polls both until `ready`, or until it has taken too long.
inline bool until(const std::function<bool()>& ready, std::initializer_list<Transport*> polled) {
  const Deadline deadline = Deadline::after(10);
  while (!ready()) {
    if (deadline.expired()) return false;
    for (Transport* transport : polled) transport->poll();
  }
  return true;
}

}  // namespace weft::shm::test
