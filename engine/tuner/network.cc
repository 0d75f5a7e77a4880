#include "engine/tuner/network.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "engine/algorithms/algorithm.h"

namespace weft {
namespace {

// A port's number: kind, way, tier or dimension, place.
enum class PortKind : int { rank, nic, uplink, torus };

constexpr int kPlaceBits = 40, kLevelBits = 8;

Port port(PortKind kind, bool out, int level, int64_t place) {
  return ((static_cast<Port>(kind) * 2 + (out ? 1 : 0)) << (kPlaceBits + kLevelBits)) +
         (static_cast<Port>(level) << kPlaceBits) + place;
}

PortKind kind_of(Port port) { return static_cast<PortKind>(port >> (kPlaceBits + kLevelBits + 1)); }
int level_of(Port port) { return static_cast<int>(port >> kPlaceBits & ((1 << kLevelBits) - 1)); }

class Route {
 public:
  Route(const Network& network, int ranks, int period)
      : network_(network),
        node_ranks_(network.node_ranks > 0 ? network.node_ranks : ranks),
        period_(period) {}

  Path path(Rank from, Rank to) {
    const int a = from / node_ranks_, b = to / node_ranks_;
    path_.medium = a == b ? &network_.inside : &network_.between;
    path_.latency_s = path_.medium->latency_s;
    if (a == b)
      inside(from, to);
    else
      between(from, to);
    return std::move(path_);
  }

 private:
  // Node numbers modulo the period; groups of nodes likewise. The last one need not be full.
  int64_t group(int node, int nodes) const {
    const int64_t span = int64_t{node_ranks_} * nodes;
    return node / nodes % ((period_ + span - 1) / span);
  }

  void inside(Rank from, Rank to) {
    if (network_.inside.port_rate <= 0) return;
    path_.ports.push_back(port(PortKind::rank, true, 0, from % period_));
    path_.ports.push_back(port(PortKind::rank, false, 0, to % period_));
  }

  void between(Rank from, Rank to) {
    const int a = from / node_ranks_, b = to / node_ranks_;
    cross(port(PortKind::nic, true, 0, nic(from)));
    cross(port(PortKind::nic, false, 0, nic(to)));
    if (!network_.torus.empty())
      along_torus(a, b);
    else
      through_switches(a, b);
  }

  // All ports between nodes have the NICs' rate, or a multiple of it.
  void cross(Port port) {
    if (network_.between.port_rate > 0) path_.ports.push_back(port);
  }

  int64_t nic(Rank rank) const {
    const int64_t mine = int64_t{rank % node_ranks_} * network_.nics() / node_ranks_;
    return group(rank / node_ranks_, 1) * network_.nics() + mine;
  }

  void through_switches(int a, int b) {
    for (size_t t = 0; t < network_.tiers.size(); ++t) {
      const Tier& tier = network_.tiers[t];
      path_.latency_s += tier.latency_s;
      if (a / tier.nodes == b / tier.nodes) return;
      if (tier.oversubscription <= 1) continue;
      cross(port(PortKind::uplink, true, int(t), group(a, tier.nodes)));
      cross(port(PortKind::uplink, false, int(t), group(b, tier.nodes)));
    }
  }

  // The shorter way round, one dimension after the other.
  void along_torus(int a, int b) {
    int stride = 1;
    for (size_t d = 0; d < network_.torus.size(); ++d) {
      const int size = network_.torus[d];
      const int here = a / stride % size, there = b / stride % size;
      const int ahead = (there - here + size) % size;
      const bool up = ahead <= size - ahead;
      for (int left = up ? ahead : size - ahead, at = here; left > 0; --left) {
        cross(port(PortKind::torus, up, int(d), a));
        path_.latency_s += network_.hop_s;
        const int next = (at + (up ? 1 : size - 1)) % size;
        a += (next - at) * stride;
        at = next;
      }
      stride *= size;
    }
  }

  const Network& network_;
  const int node_ranks_, period_;
  Path path_;
};

}  // namespace

double rate_at(const std::vector<Rate>& rates, double bytes) {
  if (rates.empty()) return 0;
  const auto above =
      std::find_if(rates.begin(), rates.end(), [&](const Rate& r) { return r.bytes >= bytes; });
  if (above == rates.end()) return rates.back().rate;
  if (above == rates.begin()) return above->rate;
  const Rate &low = *(above - 1), &high = *above;
  const double part = std::log(bytes / low.bytes) / std::log(high.bytes / low.bytes);
  // Rounded: ranks whose libraries differ in last bits choose alike all the same.
  return static_cast<float>(low.rate * std::pow(high.rate / low.rate, part));
}

double Network::cached_bytes(int neighbours) const {
  // What is copied twice as fast as past them is nearly all in them. A call has windows, too.
  constexpr double kFaster = 2, kBuffers = 0.8;
  const double least = kFaster * stream_rate;
  double bytes = 0;
  for (size_t i = 0; stream_rate > 0 && i < memory.size(); ++i) {
    if (memory[i].rate >= least) {
      bytes = memory[i].bytes;
    } else if (i > 0 && memory[i - 1].rate >= least) {  // as rate_at() has it in between
      const Rate &low = memory[i - 1], &high = memory[i];
      const double part = std::log(least / low.rate) / std::log(high.rate / low.rate);
      bytes = low.bytes * std::pow(high.bytes / low.bytes, part);
    }
  }
  const int cores = node_cores > 0 ? std::min(node_cores, neighbours) : neighbours;
  // Rounded as rates are, for prices.
  return std::max(kCachedBytes, static_cast<double>(static_cast<float>(kBuffers * bytes * cores)));
}

Rank Network::first_of_core(Rank rank, int ranks) const {
  const int here = node_ranks > 0 ? node_ranks : ranks;
  if (node_cores == 0 || node_cores >= here) return rank;
  const Rank first = node_of(rank) * node_ranks, place = rank - first;
  if (!core_blocks) return first + place % node_cores;
  const int core = static_cast<int>(int64_t{place} * node_cores / here);
  return first + static_cast<Rank>((int64_t{core} * here + node_cores - 1) / node_cores);
}

int Network::nics() const {
  const int ranks = std::max(1, node_ranks);
  return node_nics > 0 ? std::min(node_nics, ranks) : ranks;
}

int Network::period(int ranks) const {
  if (!torus.empty()) return ranks;
  int nodes_together = 1;
  for (const Tier& tier : tiers) nodes_together = tier.nodes;
  const int64_t turn = node_ranks > 0 ? int64_t{node_ranks} * nodes_together : ranks;
  if (node_ranks == 0 && node_cores == 0 && tiers.empty()) return 1;
  return turn <= ranks && ranks % turn == 0 ? static_cast<int>(turn) : ranks;
}

Path path(const Network& network, Rank from, Rank to, int ranks, int period) {
  return Route(network, ranks, period).path(from, to);
}

double port_rate(const Network& network, Port port) {
  switch (kind_of(port)) {
    case PortKind::rank: return network.inside.port_rate;
    case PortKind::nic: return network.between.port_rate;
    case PortKind::torus: return network.between.port_rate;
    case PortKind::uplink: break;
  }
  const Tier& tier = network.tiers[static_cast<size_t>(level_of(port))];
  return network.between.port_rate * network.nics() * tier.nodes / tier.oversubscription;
}

Status check(const Network& network, int ranks) {
  if (network.torus.empty()) return {};
  int64_t nodes = 1;
  for (const int size : network.torus) nodes *= size;
  if (network.nodes(ranks) <= nodes && network.node_ranks > 0) return {};
  return invalid_argument(concat("The torus of network \"", network.name, "\" has ", nodes,
                                 " nodes of ", network.node_ranks, " ranks, too few for ", ranks,
                                 " ranks; simulate fewer, or describe a larger one."));
}

}  // namespace weft
