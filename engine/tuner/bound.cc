#include "engine/tuner/bound.h"

#include <algorithm>

namespace weft {
namespace {

// Of a message of `bytes`: what the busiest of `parts` equal parts of the job sends or receives.
double crossing(const Collective& c, double bytes, int parts) {
  const double others = static_cast<double>(parts - 1) / parts;
  switch (c.kind) {
    case Kind::all_reduce: return 2 * others * bytes;
    case Kind::reduce:
    case Kind::broadcast: return parts > 1 ? bytes : 0;
    case Kind::barrier: return 0;
    case Kind::all_to_all:
    case Kind::exchange: return others * bytes * c.ranks / parts;
    default: return others * bytes;
  }
}

// Bytes of Input and Output together, of a rank that has the fewer of the two.
double touched(const Collective& c, double bytes) {
  switch (c.kind) {
    case Kind::barrier: return 0;
    case Kind::all_reduce:
    case Kind::all_to_all:
    case Kind::exchange: return 2 * bytes;
    default: return bytes;
  }
}

}  // namespace

double lower_bound(const Network& network, const Collective& c, double bytes) {
  if (c.ranks == 1) return 0;
  const int nodes = network.nodes(c.ranks);
  const Medium& widest = nodes > 1 ? network.between : network.inside;
  double bound = widest.latency_s;

  const double nic = network.between.port_rate;
  const double inside = network.inside.port_rate;
  const bool limited = nodes == 1 ? inside > 0 : nic > 0 && (inside > 0 || network.node_ranks == 1);
  if (limited)
    bound = std::max(bound, crossing(c, bytes, c.ranks) / (nodes == 1 ? inside : inside + nic));
  if (nodes > 1 && nic > 0) {
    const int nics = network.node_nics > 0 ? network.node_nics : network.node_ranks;
    bound = std::max(bound, crossing(c, bytes, nodes) / (nic * nics));
  }
  const double least = touched(c, bytes);
  if (const double rate = network.memory_rate(least); rate > 0)
    bound = std::max(bound, least / rate);
  return bound;
}

}  // namespace weft
