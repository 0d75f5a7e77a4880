// What communication costs between the ranks of a job: the value that simulations run on.
//
// Ranks fill nodes one after the other: rank r is on node r / node_ranks. A message between two
// ranks crosses ports (resources that carry one message at a time, at a rate of their own) and
// takes a latency on top:
//
//   inside a node   the sender's port and the receiver's (an NVLink switch; in shared memory ranks
//                   move the bytes themselves and there are no ports)
//   between nodes   a NIC of either node, the rank's own where there are enough ("rails"), and
//       fat tree    the uplinks of the switches on the way where they are oversubscribed
//       torus       the links between the nodes on the way, one dimension after the other
//
// What a rank does itself it pays for in time of its core: for every step, for every message, and
// for every byte read or written.
//
// The parameters are those of LogGP, with a CPU rate: A. Alexandrov, M. Ionescu, K. Schauser,
// C. Scheiman, "LogGP: Incorporating Long Messages into the LogP Model", SPAA 1995.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"

namespace weft {

inline constexpr double kMicro = 1e-6, kGiga = 1e9;

// Bytes per second, of pieces of so many bytes.
struct Rate {
  double bytes = 0;
  double rate = 0;
  friend bool operator==(const Rate&, const Rate&) = default;
};
// Interpolated; 0: no limit. REQUIRES: they ascend by bytes.
double rate_at(const std::vector<Rate>& rates, double bytes);

// How messages get from rank to rank. Rates are bytes per second; 0: no limit.
struct Medium {
  double latency_s = 0;           // of a message without bytes, besides what ranks do themselves
  double port_rate = 0;           // of one port, each way
  double send_s = 0, recv_s = 0;  // a rank's own time per message
  double signal_s = 0;            // and per signal that it gives or sees, in windows
  double poll_s = 0;              // for a look that finds no message
  // That a rank keeps its core while it waits for one that has another, where ranks see that.
  double patience_s = 0;
  double send_tail_s = 0;  // of send_s, while which the message is on its way already
  // At which a rank itself moves bytes into and out of the medium, by the length of a message.
  // Empty: no limit.
  std::vector<Rate> rank_rates = {};
  // Inside a node: into its own window, and out of others', by what is moved of a chunk in a round.
  // Empty: rank_rates.
  std::vector<Rate> window_rates = {};
  // Of ranks that in a call only send, or only receive (write windows, or read others'): the two
  // ends run apart from each other, and what one reads has left the caches of the other. Empty: as
  // those that exchange.
  std::vector<Rate> rank_one_way_rates = {}, window_one_way_rates = {};
  // Of reading another rank's memory through the kernel: for each time, and at which bytes come, by
  // how many the reader touches; of several at once, and of one alone (empty: the same). None: it
  // is not possible.
  double read_s = 0;
  std::vector<Rate> read_rates = {}, read_alone_rates = {};
  // Ranks see each other's memory: what crosses between two that share a core is in its cache.
  bool mapped = false;
  // A small call claims the lines that the next one writes to windows (kernels/claim.h).
  bool claims = false;
  friend bool operator==(const Medium&, const Medium&) = default;
};

// A level of switches of a fat tree, from the leaves up.
struct Tier {
  int nodes = 0;                // below one switch; a multiple of the tier's below
  double latency_s = 0;         // added to messages that turn around here
  double oversubscription = 1;  // of its uplinks: what the NICs below have / what they have
  friend bool operator==(const Tier&, const Tier&) = default;
};

struct Network {
  std::string name;
  int node_ranks = 0;          // 0: all ranks are on one node
  int node_cores = 0;          // 0: a core for each rank
  bool core_blocks = false;    // neighbours share a core; else ranks are on cores in turn
  int node_nics = 0;           // 0, or enough of them: a NIC for each rank
  double call_s = 0;           // a rank's own time per call
  double step_s = 0;           // and per step
  double short_step_s = 0;     // of small calls that are a few window steps; 0: step_s
  double fold_s = 0;           // and more for one that folds operands
  double switch_s = 0;         // when a core turns to another rank, at least
  double switch_spread_s = 0;  // and at most so much more
  std::vector<Rate> memory;    // that a core reads and writes of bytes that it uses again and
                               // again; empty: no limit
  double stream_rate = 0;      // of results that are written past the caches; 0: as all others
  Medium inside, between;
  std::vector<Tier> tiers;  // fat tree; the topmost switches are joined without limit
  std::vector<int> torus;   // nodes in each dimension; instead of tiers
  double hop_s = 0;         // torus: latency per link
  friend bool operator==(const Network&, const Network&) = default;

  int nodes(int ranks) const { return node_ranks > 0 ? (ranks - 1) / node_ranks + 1 : 1; }
  int node_of(Rank rank) const { return node_ranks > 0 ? rank / node_ranks : 0; }
  // The first rank of those that share a core with it, in a job of so many.
  Rank first_of_core(Rank rank, int ranks) const;
  // Whether ranks of a job of so many share cores.
  bool shares_cores(int ranks) const {
    return node_cores > 0 && node_cores < (node_ranks > 0 ? node_ranks : ranks);
  }
  // Of a node, that its ranks use: none uses two.
  int nics() const;
  double memory_rate(double footprint) const { return rate_at(memory, footprint); }
  // Bytes of buffers that caches hold for so many ranks of a node: kCachedBytes at least, and most
  // of what is copied twice as fast as past the caches.
  double cached_bytes(int neighbours) const;

  // Turned by this many ranks (modulo all), a job on this network looks the same. A divisor of
  // `ranks`.
  int period(int ranks) const;
};

// A port, by kind and place, in numbers that path() gives out.
using Port = int64_t;

struct Path {
  const Medium* medium = nullptr;
  double latency_s = 0;
  std::vector<Port> ports;
};

// REQUIRES: from != to. Places are counted modulo `period` ranks: ports that a turn by a period
// maps onto each other are one.
Path path(const Network& network, Rank from, Rank to, int ranks, int period);
double port_rate(const Network& network, Port port);

// Whether `ranks` fit; the error says what does.
Status check(const Network& network, int ranks);

// Times in microseconds, rates in GB/s (10^9 bytes); docs/simulation.md has the fields.
std::string to_json(const Network& network);
Result<Network> network_from_json(std::string_view text);

// "node", "nvlink", "fat-tree", "torus": examples with round figures of their kind.
std::vector<std::string> example_networks();
const Network* find_example_network(std::string_view name);

}  // namespace weft
