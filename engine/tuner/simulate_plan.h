// Programs made ready for playing: steps as numbers, links and cells found.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "engine/tuner/simulate.h"

namespace weft::simulation {

struct Op {
  int from = -1, to = -1;  // links
  int waits_begin = 0, waits_end = 0, posts_begin = 0, posts_end = 0;
  int chunk = 0, times = 1, stride = 0;
  // Chunks read and written: for the first time in a round, again (in a cache, then, if it holds a
  // round), and in windows, which other ranks write or read.
  double fresh = 0, again = 0, shared = 0;
  bool begins = true, ends = true;  // its messages
};

struct Wait {
  int cell = 0;
  int lag = 0;
};

struct Link {
  double latency_s = 0;
  bool between = false;  // nodes
  std::vector<int> ports;
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
  std::vector<double> cells;  // by cell: latency of a signal
  std::vector<double> ports;  // by port: rate
  double steps = 0;           // in one round
};

// The ranks that must be played so that all others are turns of them: a divisor of all ranks.
int representatives(const Trial& trial, const Network& network);

// An error where one round alone has more steps than the budget.
Result<Plan> make_plan(const Trial& trial, const Network& network, int ranks);

}  // namespace weft::simulation
