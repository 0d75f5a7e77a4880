// Ranks for a test of the Fabric level: threads that have joined one job.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "fabric/fabric.h"
#include "tests/support/cluster.h"

namespace weft::test {

inline void on_ranks(const Cluster& cluster, const std::function<void(Fabric&)>& body) {
  run_bare_ranks(cluster, [&](Rendezvous& meet) {
    Options options = cluster.options;
    if (options.timeout_s == Options{}.timeout_s) options.timeout_s = 60;
    if (!cluster.hosts.empty()) options.host = cluster.hosts[static_cast<size_t>(meet.rank())];
    try {
      Fabric fabric = Fabric::join(meet, {.options = options});
      body(fabric);
    } catch (const std::exception& error) {
      ADD_FAILURE() << "rank " << meet.rank() << ": " << error.what();
    }
  });
}

inline void on_ranks(int ranks, const std::function<void(Fabric&)>& body) {
  Cluster cluster;
  cluster.ranks = ranks;
  on_ranks(cluster, body);
}

// What `action` throws, or "nothing was thrown".
inline Status failure_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.status();
  }
  return Status(Code::internal, "nothing was thrown");
}

// That `action` throws an Error whose message has all parts.
inline void expect_failure(Code code, const std::vector<std::string>& parts,
                           const std::function<void()>& action) {
  const Status status = failure_of(action);
  EXPECT_EQ(status.code(), code) << status.to_string();
  for (const std::string& part : parts)
    EXPECT_NE(status.message().find(part), std::string::npos)
        << "'" << part << "' is missing in: " << status.to_string();
}

}  // namespace weft::test
