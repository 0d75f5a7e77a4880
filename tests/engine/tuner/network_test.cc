#include "engine/tuner/network.h"

#include <gtest/gtest.h>

#include "engine/algorithms/algorithm.h"

namespace weft {
namespace {

Network example(const char* name) { return *find_example_network(name); }

TEST(Network, ExamplesSurviveJson) {
  for (const std::string& name : example_networks()) {
    const Network network = example(name.c_str());
    const Result<Network> again = network_from_json(to_json(network));
    ASSERT_TRUE(again.ok()) << again.status().message();
    // Units differ by powers of ten, so figures may differ in their last bits.
    EXPECT_EQ(to_json(*again), to_json(network));
    EXPECT_EQ(again->tiers.size(), network.tiers.size());
    EXPECT_EQ(again->torus, network.torus);
  }
}

TEST(Network, WrongJsonIsNamedWithItsPlace) {
  const struct {
    const char* text;
    const char* part;
  } cases[] = {
      {"[", "not JSON"},
      {"[]", "an object is expected"},
      {R"({"inside": {"latency": 1}})", "inside.latency: there is no such field"},
      {R"({"inside": {"latency_us": -1}})", "inside.latency_us: -1 is negative"},
      {R"({"inside": {"send_us": 1, "send_tail_us": 2}})", "inside.send_tail_us: it is a part"},
      {R"({"inside": {"latency_us": "1"}})", "inside.latency_us: a number is expected"},
      {R"({"node_ranks": 1.5})", "node_ranks: a whole number is expected"},
      {R"({"memory": [{"gbytes": 1}]})", "memory[0].footprint_bytes: it is missing"},
      {R"({"memory": [{"gbytes": 1, "footprint_bytes": 8}, {"gbytes": 1, "footprint_bytes": 8}]})",
       "memory[1].footprint_bytes: these must"},
      {R"({"memory": [{"gbytes": 0, "footprint_bytes": 8}]})", "memory[0].gbytes: a rate"},
      {R"({"node_ranks": 8, "tiers": [{"nodes": 4}, {"nodes": 6}]})", "tiers[1].nodes: 6 is no"},
      {R"({"node_ranks": 8, "tiers": [{"nodes": 4, "oversubscription": 0.5}]})", "1 (none)"},
      {R"({"node_ranks": 8, "tiers": [{"nodes": 4}], "torus": [{"nodes": 4}]})", "not both"},
      {R"({"torus": [{"nodes": 4}]})", "node_ranks: it is needed"},
      {R"({"inside": {"port_gbytes": 5e-324}})",
       "inside.port_gbytes: a rate must be at least 1e-06 GB/s, not 4.94066e-324; leave it out"},
      {R"({"between": {"port_gbytes": 9e-7}})", "at least 1e-06 GB/s, not 9e-07"},
      {R"({"stream_gbytes": 1e-9})", "stream_gbytes: a rate"},
      {R"({"memory": [{"gbytes": 1e-300, "footprint_bytes": 8}]})", "memory[0].gbytes: a rate"},
      {R"({"memory": [{"gbytes": 1, "footprint_bytes": 5e-324}]})",
       "memory[0].footprint_bytes: these must be at least 1"},
      {R"({"node_ranks": 2147483647})", "node_ranks: 2147483647 is more than 1073741824"},
      {R"({"node_ranks": 8, "tiers": [{"nodes": 536870912}]})",
       "tiers[0].nodes: 536870912 nodes of 8 ranks are more"},
      {R"({"node_ranks": 1, "torus": [{"nodes": 65536}, {"nodes": 65536}, {"nodes": 2}]})",
       "torus[1].nodes: 4294967296 nodes of 1 ranks are more"},
      {R"({"node_ranks": 1, "torus": [{"nodes": 2147483647}, {"nodes": 2147483647}]})",
       "torus[0].nodes: 2147483647 nodes"},
  };
  for (const auto& [text, part] : cases) {
    const Result<Network> network = network_from_json(text);
    ASSERT_FALSE(network.ok()) << text;
    EXPECT_NE(network.status().message().find(part), std::string::npos)
        << network.status().message();
  }
}

// More would not fit the numbers of ports.
TEST(Network, HasAsManyDimensionsAsAnyoneNeeds) {
  std::string text = R"({"node_ranks": 1, "torus": [{"nodes": 2})";
  for (int i = 0; i < 300; ++i) text += R"(, {"nodes": 1})";
  const Status many = network_from_json(text + "]}").status();
  EXPECT_NE(many.message().find("torus: it has 301 dimensions"), std::string::npos)
      << many.message();
}

TEST(Network, JsonThatNestsTooDeepIsRefused) {
  const Status deep = network_from_json(std::string(1'000'000, '[')).status();
  EXPECT_NE(deep.message().find("more than 64 deep"), std::string::npos) << deep.message();
}

TEST(Network, MediaSurviveJson) {
  Network network;
  network.name = "mapped";
  network.switch_spread_s = 0.5 * kMicro;
  network.inside.patience_s = 2 * kMicro;
  network.inside.rank_rates = {{1024, 5e9}, {65536, 2e10}};
  network.inside.window_rates = {{1024, 4e9}, {65536, 3e10}};
  network.inside.rank_one_way_rates = {{2048, 6e9}};
  network.inside.window_one_way_rates = {{4096, 7e9}};
  network.inside.send_s = 4 * kMicro;
  network.inside.send_tail_s = 1 * kMicro;
  network.inside.mapped = network.inside.claims = true;
  const Result<Network> back = network_from_json(to_json(network));
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(*back, network);
}

TEST(Network, MemoryRatesAreInterpolated) {
  Network network;
  EXPECT_EQ(network.memory_rate(1e6), 0);
  network.memory = {{1000, 100}, {100000, 1}};
  EXPECT_EQ(network.memory_rate(1), 100);
  EXPECT_NEAR(network.memory_rate(10000), 10, 1e-9);
  EXPECT_EQ(network.memory_rate(1e9), 1);
}

TEST(Network, CachesHoldWhatGoesFasterThroughThem) {
  constexpr double kMiB = 1 << 20;
  Network n;
  EXPECT_EQ(n.cached_bytes(2), kCachedBytes) << "nothing was measured";
  n.node_cores = 2;
  n.memory = {{1 * kMiB, 400}, {16 * kMiB, 220}, {64 * kMiB, 55}};
  EXPECT_EQ(n.cached_bytes(2), kCachedBytes) << "nor what goes past them";
  n.stream_rate = 55;  // half as fast as 32 MiB of each core
  EXPECT_NEAR(n.cached_bytes(2), 0.8 * 64 * kMiB, kMiB / 10);
  EXPECT_NEAR(n.cached_bytes(8), 0.8 * 64 * kMiB, kMiB / 10) << "ranks that share cores";
  EXPECT_NEAR(n.cached_bytes(1), 0.8 * 32 * kMiB, kMiB / 10);
  n.stream_rate = 25;
  EXPECT_NEAR(n.cached_bytes(2), 0.8 * 128 * kMiB, kMiB / 10) << "all that was measured";
  n.stream_rate = 210;
  EXPECT_EQ(n.cached_bytes(2), kCachedBytes) << "a cache that is others'";
}

TEST(Network, PathsCrossTheRightPorts) {
  const Network nvlink = example("nvlink");
  const Path inside = path(nvlink, 1, 2, 32, 32), between = path(nvlink, 1, 10, 32, 32);
  EXPECT_EQ(inside.medium, &nvlink.inside);
  EXPECT_EQ(inside.ports.size(), 2u);
  EXPECT_EQ(between.medium, &nvlink.between);
  ASSERT_EQ(between.ports.size(), 2u);
  EXPECT_EQ(port_rate(nvlink, between.ports[0]), nvlink.between.port_rate);
  // Ranks of one node have NICs of their own; what leaves one is another port than what enters it.
  EXPECT_NE(path(nvlink, 2, 10, 32, 32).ports[0], between.ports[0]);
  EXPECT_NE(path(nvlink, 10, 1, 32, 32).ports[1], between.ports[0]);
  // Modulo the period all nodes are one.
  EXPECT_EQ(path(nvlink, 9, 18, 32, 8).ports, path(nvlink, 1, 10, 32, 8).ports);
}

TEST(Network, SharedNicsAreShared) {
  Network network = example("nvlink");
  network.node_nics = 2;
  EXPECT_EQ(path(network, 0, 8, 16, 16).ports[0], path(network, 3, 8, 16, 16).ports[0]);
  EXPECT_NE(path(network, 0, 8, 16, 16).ports[0], path(network, 4, 8, 16, 16).ports[0]);
}

TEST(Network, NicsBeyondItsRanksAreIdle) {
  Network network = example("fat-tree");
  network.tiers = {{1, 0, 2}};
  const auto ports = [&] { return path(network, 8191, 1, 8192, 8192).ports; };
  const std::vector<Port> eight = ports();
  for (const int nics : {0, 9, 2147483647}) {
    network.node_nics = nics;
    EXPECT_EQ(ports(), eight);
    EXPECT_DOUBLE_EQ(port_rate(network, eight[2]), 48e9 * 8 / 2);
  }
}

// A tuning's, whose nodes have as many ranks as a job's hosts.
TEST(Network, PeriodsOfVastNodesAreAllRanks) {
  Network network = example("fat-tree");
  network.node_ranks = 8;
  network.tiers = {{1 << 30, 0, 1}};
  EXPECT_EQ(network.period(64), 64);
  EXPECT_EQ(network.nodes(64), 8);
}

TEST(Network, OversubscribedSwitchesAreOnTheWayOnlyWhereTheyAreCrossed) {
  Network network = example("fat-tree");
  network.tiers = {{2, 1e-6, 4}, {4, 2e-6, 2}};
  const int ranks = 8 * 8;
  const auto to_node = [&](int node) { return path(network, 0, node * 8, ranks, ranks); };
  EXPECT_EQ(to_node(1).ports.size(), 2u);  // the NICs alone
  EXPECT_EQ(to_node(2).ports.size(), 4u);
  EXPECT_EQ(to_node(4).ports.size(), 6u);
  EXPECT_NEAR(to_node(1).latency_s, network.between.latency_s + 1e-6, 1e-12);
  EXPECT_NEAR(to_node(4).latency_s, network.between.latency_s + 3e-6, 1e-12);
  EXPECT_DOUBLE_EQ(port_rate(network, to_node(2).ports[2]), 48e9 * 8 * 2 / 4);
  EXPECT_EQ(network.period(ranks), 32);
  EXPECT_EQ(network.period(24), 24);
}

TEST(Network, TorusTakesTheShorterWayRound) {
  Network network = example("torus");
  network.torus = {4, 3};
  const auto links = [&](Rank to) { return path(network, 0, to, 12, 12).ports.size() - 2; };
  EXPECT_EQ(links(1), 1u);
  EXPECT_EQ(links(2), 2u);
  EXPECT_EQ(links(3), 1u);  // the other way
  EXPECT_EQ(links(4), 1u);  // the second dimension
  EXPECT_EQ(links(8), 1u);
  EXPECT_EQ(links(10), 3u);
  EXPECT_FALSE(check(network, 13).ok());
  EXPECT_TRUE(check(network, 12).ok());
}

}  // namespace
}  // namespace weft
