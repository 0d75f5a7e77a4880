// Tuner: what suits a call, by price. Every schedule is simulated on the network that was measured;
// the same network, and so the same prices, on all ranks.
#pragma once

#include <compare>
#include <cstddef>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "engine/algorithms/algorithm.h"
#include "engine/tuner/network.h"

namespace weft {

// How a call is run.
struct Choice {
  const Algorithm* algorithm = nullptr;
  int radix = 2;
  bool ll = false;
  int copies = 1;            // of the algorithm's lanes
  size_t segment_bytes = 0;  // of a chunk in one round
};

// How many slots a window can hold, those of all halves counted: of payload, and of lines.
struct WindowRoom {
  int slots = std::numeric_limits<int>::max();
  int lines = std::numeric_limits<int>::max();

  friend auto operator<=>(const WindowRoom&, const WindowRoom&) = default;
};

struct Offer : Choice {
  double seconds = 0;  // of a call among many that follow each other
};

// What is asked for, besides a size.
struct Demand {
  Collective collective;
  bool windows = false;     // every rank's window is mapped in every other
  bool readable = false;    // all ranks can read each other's Input
  WindowRoom room = {};     // in each of them
  bool rank_order = false;  // reductions fold in rank order
  bool varying = false;     // blocks of different sizes, which are not cut into pieces
  size_t slot_bytes = 0;    // of links
  int slots = 0;
  // What is not left to the tuner; 0: it is.
  int radix = 0, copies = 0;
  size_t segment_bytes = 0;
  bool may_ll = true, must_ll = false;

  friend auto operator<=>(const Demand&, const Demand&) = default;
};

class Tuner {
 public:
  explicit Tuner(Network network) : network_(std::move(network)) {}

  // What can run it, the cheapest first; `bytes` is the size as the columns of weft-bench count it.
  // Sizes up to the same power of two get the same answer, found once, for as long as the tuner
  // lives. Communicators that were split off one another share a tuner: any thread may ask.
  const std::vector<Offer>& offers(const Demand& demand, size_t bytes);
  const Network& network() const { return network_; }

 private:
  std::vector<Offer> price(const Demand& demand, size_t bytes) const;
  std::optional<Offer> price(const Demand& demand, const Choice& choice, size_t bytes) const;
  void refine(const Demand& demand, size_t bytes, Offer& offer) const;

  const Network network_;
  std::mutex mutex_;  // also while prices are found
  std::map<std::pair<Demand, size_t>, std::vector<Offer>> known_;
};

// Whether lines beat payload and signal where prices say nothing: one line does.
bool usually_ll(const Algorithm& algorithm, size_t block_bytes);

// Whether every piece of a block gets something: they are cut at cache lines. Else ranks wait for
// what few others pass on, and have fallen asleep when it comes, which is not priced.
bool fills_pieces(const Choice& choice, const Collective& c, double block_bytes);

// Whether the algorithm cuts the collective's blocks, all of which have to be of one size then.
bool cuts_blocks(const Algorithm& algorithm, const Collective& c);

// Copies of the algorithm's lanes where `lanes` are asked for.
int copies_of(const Algorithm& algorithm, int lanes);

// How much of a window's room the algorithm takes, where so many lanes are asked for (0: none are).
int slots_in_window(const Algorithm& algorithm, const Collective& c, int lanes);

// Elements of a chunk in one round, in bytes, where nothing else is asked for; of links with slots
// of `slot_bytes`, for blocks of `block_bytes`, between ranks that are known to share cores or not.
size_t usual_segment_bytes(const Algorithm& algorithm, const Collective& c, size_t slot_bytes,
                           size_t block_bytes, bool shares_cores);

}  // namespace weft
