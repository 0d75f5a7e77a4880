// Two ranks over a fabric in memory, driven by one thread.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/transport/verbs/fabric.h"
#include "transport/verbs/verbs.h"

namespace weft::verbs::test {

inline constexpr uint32_t kLarge = 1 << 20;

inline TransportConfig config_of(Rank rank, const VerbsOptions& options = {}) {
  TransportConfig config;
  config.rank = rank;
  config.size = 2;
  config.job = "verbs_test";
  config.host = "one host";
  config.verbs = options;
  return config;
}

inline FabricOptions one_thread(FabricOptions options = {}) {
  options.thread = false;
  return options;
}

// Little patience.
inline Tuning hasty() {
  Tuning tuning;
  tuning.grace = tuning.port_down = 0.02;
  return tuning;
}

class World {
 public:
  explicit World(const FabricOptions& options = {}, const VerbsOptions& verbs = {},
                 const Tuning& tuning = hasty())
      : fabric(std::make_shared<Fabric>(one_thread(options))) {
    std::vector<std::string> addresses;
    for (Rank rank = 0; rank < 2; ++rank) {
      auto made = make_verbs(config_of(rank, verbs), fabric->host(rank), tuning);
      EXPECT_TRUE(made.ok()) << made.status().to_string();
      ranks_[rank] = made.take();
      addresses.push_back(ranks_[rank]->address());
    }
    for (const auto& rank : ranks_) EXPECT_TRUE(rank->join(addresses).ok());
  }
  ~World() {
    for (auto& rank : ranks_) rank.reset();
    EXPECT_EQ(fabric->violations(), std::vector<std::string>());
    EXPECT_EQ(fabric->queue_pairs(), 0u);
    EXPECT_EQ(fabric->regions(), 0u);
  }

  Transport& operator[](Rank rank) { return *ranks_[static_cast<size_t>(rank)]; }
  bool until(const std::function<bool()>& ready) {
    const Deadline deadline = Deadline::after(20);
    while (!ready()) {
      if (deadline.expired()) return false;
      for (const auto& rank : ranks_)
        if (rank) rank->poll();
    }
    return true;
  }

  void drop(Rank rank) { ranks_[static_cast<size_t>(rank)].reset(); }

  const std::shared_ptr<Fabric> fabric;

 private:
  std::array<std::unique_ptr<Transport>, 2> ranks_;
};

// A link from rank 0 to rank 1, or the other way.
struct Link {
  explicit Link(World& world, LinkShape shape = {2, kLarge}, Rank from = 0, LinkId id = 1)
      : out(world[from].open_send(1 - from, id, shape)),
        in(world[1 - from].open_recv(from, id, shape)) {
    EXPECT_TRUE(world.until([&] { return !out.reserve().empty(); })) << out.status().to_string();
  }
  SendLink& out;
  RecvLink& in;
};

}  // namespace weft::verbs::test
