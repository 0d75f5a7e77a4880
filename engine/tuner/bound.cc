#include "engine/tuner/bound.h"

#include <algorithm>

namespace weft {
namespace {

// Of a message of `bytes`: what the busiest part of the job sends or receives. Parts are of `each`
// ranks, in order; the last one may have fewer.
double crossing(const Collective& c, double bytes, int each) {
  const int parts = (c.ranks + each - 1) / each;
  const int last = c.ranks - (parts - 1) * each;
  const auto outside = [&](int inside) { return double(c.ranks - inside) / c.ranks; };
  switch (c.kind) {
    case Kind::all_reduce: return 2 * bytes * (parts - 1) / parts;
    case Kind::reduce:
    case Kind::broadcast: return parts > 1 ? bytes : 0;
    case Kind::barrier: return 0;
    case Kind::gather:
    case Kind::scatter: return bytes * outside(c.root / each == parts - 1 ? last : each);
    case Kind::all_to_all:
    case Kind::exchange:
      return bytes * std::max(each * outside(std::min(each, c.ranks)), last * outside(last));
    default: return bytes * outside(last);
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
    bound = std::max(bound, crossing(c, bytes, 1) / (nodes == 1 ? inside : inside + nic));
  if (nodes > 1 && nic > 0) {
    const double node = crossing(c, bytes, network.node_ranks);
    bound = std::max(bound, node / (nic * network.nics()));
  }
  const double least = touched(c, bytes);
  // What is streamed takes no room in caches, so the rest may be read faster. Whatever else the
  // ranks of a core touch may be where memory is faster still.
  const double footprint = network.stream_rate > 0 ? least / 2 : least;
  double rate = std::max(network.memory_rate(footprint), network.stream_rate);
  for (const Rate& memory : network.memory)
    if (memory.bytes >= footprint) rate = std::max(rate, memory.rate);
  if (!network.memory.empty()) bound = std::max(bound, least / rate);
  return bound;
}

}  // namespace weft
