// Programs made ready for playing: steps as numbers, links and cells found.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "engine/schedule/window_lap.h"
#include "engine/tuner/simulate.h"

namespace weft::simulation {

constexpr int kNobody = -1;  // as a rank or a lane
// ll: of a line and of the payload in it.
constexpr double kLineBytes = 256, kLinePayload = 248;
inline double lines_of(double bytes) { return std::max(1.0, std::ceil(bytes / kLinePayload)); }

struct Op {
  int from = -1, to = -1;  // links
  int waits_begin = 0, waits_end = 0, posts_begin = 0, posts_end = 0;
  int chunk = 0, times = 1, stride = 0;
  // Chunks read and written: for the first time in a round, again (in a cache, then, if it holds a
  // round), and in windows, which other ranks write or read.
  double fresh = 0, again = 0, shared = 0;
  double back = 0;        // and to be written to windows that this rank has read last
  double moved = 0;       // and through sockets, and slots beside them
  double pulled = 0;      // and through the kernel, from a peer's memory to where they go
  double results = 0;     // of the fresh ones, those that large calls write past the caches
  bool folds = false;     // several operands into one
  int signals = 0;        // that it waits for, in lines too, or gives
  bool lines = false;     // ll: windows are read or written in lines
  bool by_slots = false;  // its messages lie in slots, also where links are sockets
  bool begins = true, ends = true;  // its messages
};

struct Wait {
  int cell = 0;
  int lag = 0;
};

struct Link {
  Rank from = kNobody, to = kNobody;  // of one node, among those that are played
  double latency_s = 0;
  bool between = false;   // nodes
  bool in_cache = false;  // of the core that both ends share
  bool socket = false;    // ranks move bytes into memory of the system's, and out of it
  int64_t messages = 0;   // in a round
  std::vector<int> ports;
};

struct Cell {
  Rank poster = kNobody;  // of the waiter's node, among those that are played
  double latency_s = 0;
};

struct PlayedLane {
  Rank rank = 0;
  int number = 0;  // in the rank's program
  int copy = 0;
  int begin = 0, end = 0;  // ops
};

struct Plan {
  int ranks = 0;  // that are played
  int copies = 1, message_chunks = 1, pieces = 1, chunks = 1;
  std::vector<Op> ops;
  std::vector<PlayedLane> lanes;
  std::vector<Wait> waits;
  std::vector<int> posts;
  std::vector<Link> links;
  std::vector<Cell> cells;
  std::vector<double> ports;  // by port: rate
  double steps = 0;           // in one round
  // Chunks of Input and Output that a rank reads or writes; of these, results.
  struct Touched {
    double all = 0, results = 0;
    double written = 0, read = 0;          // of its own window, and of others'
    bool sends = false, receives = false;  // messages
    bool pulls = false;                    // others' memory, through the kernel
  };
  std::vector<Touched> touched;  // by rank
  int window_slots = 0, window_halves = 1;
  bool crowded = false;  // ranks share cores
  Traffic traffic = Traffic::one_way;

  // Bytes in which leases of so many go round (schedule/window_lap.h).
  size_t lap(double bytes) const;

  // How many calls' leases of window space lie beside each other (executor/lease.h).
  int lease_depth(double round_bytes, int rounds, bool ll) const;
};

// The ranks that must be played so that all others are turns of them: a divisor of all ranks.
int representatives(const Trial& trial, const Network& network);

// An error where one round alone has more steps than the budget, or the message so many blocks that
// what is noted of them takes more memory than that many steps would.
Result<Plan> make_plan(const Trial& trial, const Network& network, int ranks);

}  // namespace weft::simulation
