// The cores of a simulation: who runs on which, and whose turn is next.
//
// A rank that finds nothing to do lets the next one of its core run, and so on round the core: each
// turn takes Network::switch_s, and a step and Medium::poll_s for finding nothing. The first time
// since something was done it looks kSpins times more before (where patience_s says what a look is:
// in shared memory). While it waits for one rank that has another core it keeps its own for up to
// Medium::patience_s, as Backoff does (which, in shared memory, gives way at once where the rank
// needs something of another one of its core: not modelled). Ranks that have found nothing in
// kTurns turns sleep, until one of them is ready.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "engine/tuner/network.h"
#include "engine/tuner/simulate_plan.h"

namespace weft::simulation {

// What a core does: nothing yet; a rank's step; the time of a rank from one call to the next; a
// look of a rank whether it has something to do; a switch to the next rank. Or all its ranks sleep.
enum class Doing : uint8_t { nothing, step, between_calls, looks, turns, sleeps };

struct Core {
  Doing doing = Doing::nothing;
  Rank running = kNobody;   // that it turned to last
  Rank awaited = kNobody;   // whom that one, looking, keeps the core for
  double until = 0;         // and how long
  int turns = 0;            // in which nobody found anything
  std::vector<int> ready;   // lanes that wait for it, in order
  std::minstd_rand random;  // how long its switches take; the same in every simulation
};

class Cores {
 public:
  static constexpr int kTurns = 16, kLooks = 24, kSpins = 2;  // Backoff's

  Cores(const Network& network, int ranks)
      : network_(network),
        ranks_(ranks),
        per_node_(network.node_ranks > 0 ? network.node_ranks : ranks),
        cores_(static_cast<size_t>(ranks)),
        places_(static_cast<size_t>(ranks)) {
    fill_places();
    reset();
  }

  // Cores of one place in their nodes are alike, as representatives have them.
  void reset() {
    cores_.assign(cores_.size(), {});
    for (size_t core = 0; core < cores_.size(); ++core) {
      std::minstd_rand& random = cores_[core].random;
      random.seed(static_cast<uint32_t>(1 + core % static_cast<size_t>(per_node_)));
      random.discard(16);  // from small seeds come small numbers at first
    }
  }

  // The first rank of those on the core of `rank`.
  Rank first(Rank rank) const { return place(rank).first; }
  Core& of(Rank rank) { return cores_[static_cast<size_t>(first(rank))]; }

  bool runs(Rank rank) {
    const Core& core = of(rank);
    return core.running == rank && core.doing != Doing::turns && core.doing != Doing::sleeps;
  }

  // Ranks on the core of `rank`.
  int sharers(Rank rank) const { return place(first(rank)).sharers; }
  // Whose turn it is after that rank.
  Rank next(Rank rank) const { return place(rank).next; }
  // Calls with each core of the rank's node.
  template <class Use>
  void each_beside(Rank rank, Use use) {
    const auto node = static_cast<size_t>(rank / per_node_);
    for (size_t i = of_node_[node]; i < of_node_[node + 1]; ++i) use(of(firsts_[i]));
  }
  // From a rank that found nothing to the next one. No two take the same: in step with each other,
  // cores would meet, or miss, what others send in every turn, as no machine does.
  double turn_s(Core& core) const {
    return network_.switch_s + share(core) * network_.switch_spread_s + network_.step_s +
           network_.inside.poll_s;
  }
  // Until a rank that keeps its core looks again.
  double look_s(Core& core) const { return share(core) * look_s(); }
  // Of its looks before it gives way for the first time since something was done.
  double spins_s() const { return kSpins * look_s(); }

 private:
  struct Place {
    Rank first = 0;   // of its core
    Rank next = 0;    // after it
    int sharers = 0;  // where it is the first
  };
  const Place& place(Rank rank) const { return places_[static_cast<size_t>(rank)]; }
  void fill_places() {
    std::vector<Rank> last(places_.size(), kNobody);  // of each core so far, by its first
    for (Rank rank = 0; rank < ranks_; ++rank) {
      const auto first = static_cast<size_t>(network_.first_of_core(rank, ranks_));
      Place& here = places_[static_cast<size_t>(rank)];
      here.first = here.next = static_cast<Rank>(first);
      if (rank % per_node_ == 0) of_node_.push_back(firsts_.size());
      if (here.first == rank) firsts_.push_back(rank);
      ++places_[first].sharers;
      if (last[first] != kNobody) places_[static_cast<size_t>(last[first])].next = rank;
      last[first] = rank;
    }
    of_node_.push_back(firsts_.size());
  }
  double look_s() const { return network_.inside.patience_s / kLooks; }
  // From 0 to 1, evenly.
  static double share(Core& core) {
    std::minstd_rand& random = core.random;
    return static_cast<double>(random() - random.min()) /
           static_cast<double>(random.max() - random.min());
  }

  const Network& network_;
  const int ranks_, per_node_;
  std::vector<Core> cores_;  // each at its first rank's place
  std::vector<Place> places_;
  std::vector<Rank> firsts_;     // of the cores, in order
  std::vector<size_t> of_node_;  // where each node's begin among them; and their end
};

}  // namespace weft::simulation
