// Round figures of their kind, not measurements: shared memory of a server; eight GPUs on an NVLink
// switch with a 400 Gbit/s NIC each; the same in a fat tree with half the uplinks at the top; a
// torus with six links of 50 GB/s per node.
#include <algorithm>
#include <array>

#include "engine/tuner/network.h"

namespace weft {
namespace {

constexpr double kKiB = 1024, kMiB = 1024 * kKiB;

Network node() {
  Network network;
  network.name = "node";
  network.step_s = 0.05 * kMicro;
  network.memory = {{32 * kKiB, 100 * kGiga},
                    {1 * kMiB, 60 * kGiga},
                    {16 * kMiB, 30 * kGiga},
                    {64 * kMiB, 15 * kGiga}};
  network.inside.latency_s = 0.15 * kMicro;
  network.inside.read_s = 1 * kMicro;
  network.inside.read_rates = {{1 * kMiB, 15 * kGiga}, {16 * kMiB, 10 * kGiga}};
  network.inside.read_alone_rates = {{1 * kMiB, 20 * kGiga}, {16 * kMiB, 12 * kGiga}};
  return network;
}

Network nvlink() {
  Network network;
  network.name = "nvlink";
  network.node_ranks = 8;
  network.node_nics = 8;
  network.step_s = 0.3 * kMicro;
  network.memory = {{1 * kMiB, 1500 * kGiga}};
  network.inside = {.latency_s = 1 * kMicro, .port_rate = 400 * kGiga};
  network.between = {.latency_s = 4 * kMicro,
                     .port_rate = 48 * kGiga,
                     .send_s = 0.5 * kMicro,
                     .recv_s = 0.5 * kMicro};
  return network;
}

Network fat_tree() {
  Network network = nvlink();
  network.name = "fat-tree";
  network.tiers = {{32, 0.5 * kMicro, 1}, {512, 1 * kMicro, 2}};
  return network;
}

Network torus() {
  Network network;
  network.name = "torus";
  network.node_ranks = 1;
  network.step_s = 0.3 * kMicro;
  network.memory = {{1 * kMiB, 1000 * kGiga}};
  network.between = {.latency_s = 1 * kMicro, .port_rate = 50 * kGiga};
  network.torus = {16, 16, 16};
  network.hop_s = 0.5 * kMicro;
  return network;
}

const std::array<Network, 4>& examples() {
  static const std::array<Network, 4> all = {node(), nvlink(), fat_tree(), torus()};
  return all;
}

}  // namespace

std::vector<std::string> example_networks() {
  std::vector<std::string> names;
  for (const Network& network : examples()) names.push_back(network.name);
  return names;
}

const Network* find_example_network(std::string_view name) {
  const auto found = std::find_if(examples().begin(), examples().end(),
                                  [&](const Network& n) { return n.name == name; });
  return found == examples().end() ? nullptr : &*found;
}

}  // namespace weft
