// The cores of a simulation: who runs on which, and whose turn is next.
//
// A rank that finds nothing to do lets the next one of its core run, and so on round the core: each
// turn takes Medium::poll_s for finding nothing and Network::switch_s. While it waits for one rank
// that has another core it keeps its own for up to Network::patience_s, as Backoff does. Ranks that
// have found nothing in kTurns turns sleep, until one of them is ready.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "engine/tuner/network.h"
#include "engine/tuner/simulate_plan.h"

namespace weft::simulation {

struct Core {
  double free = 0;         // when what it does now ends
  bool held = false;       // by a step that is just ending, or a rank between two calls
  bool spinning = false;   // `running` looks whether it has something to do
  bool turning = false;    // from `running` to the next one
  bool asleep = false;     // all its ranks are
  Rank running = kNobody;  // that it turned to; none yet at first
  Rank awaited = kNobody;  // whom the spinning rank keeps the core for
  int turns = 0;           // in which nobody found anything
  uint64_t spell = 0;      // of spinning: which one
  std::vector<int> ready;  // lanes that wait for it, in order
};

class Cores {
 public:
  static constexpr int kTurns = 16;  // Backoff's

  Cores(const Network& network, int ranks)
      : network_(network),
        ranks_(ranks),
        per_node_(network.node_ranks > 0 ? network.node_ranks : ranks),
        cores_(static_cast<size_t>(ranks)) {}

  void reset() {
    cores_.assign(cores_.size(), {});
    random_.seed();
  }

  Core& of(Rank rank) { return cores_[static_cast<size_t>(network_.first_of_core(rank))]; }

  bool runs(Rank rank) {
    const Core& core = of(rank);
    return core.running == rank && !core.turning && !core.asleep;
  }

  // Ranks on the core of `rank`.
  int sharers(Rank rank) const {
    if (network_.node_cores == 0) return 1;
    const int first = rank / per_node_ * per_node_;
    const int here = std::min(per_node_, ranks_ - first);
    return (here - (rank - first) % network_.node_cores - 1) / network_.node_cores + 1;
  }
  // Whose turn it is after that rank.
  Rank next(Rank rank) const {
    const Rank first = network_.first_of_core(rank);
    const int place = (rank - first) / std::max(1, network_.node_cores);
    return first + (place + 1) % sharers(rank) * network_.node_cores;
  }
  // Calls with each core of the rank's node.
  template <class Use>
  void each_beside(Rank rank, Use use) {
    const size_t first = static_cast<size_t>(rank / per_node_) * static_cast<size_t>(per_node_);
    const size_t end = std::min(cores_.size(), first + static_cast<size_t>(network_.node_cores));
    for (size_t core = first; core < end; ++core) use(cores_[core]);
  }
  // From a rank that found nothing to the next one. No two take the same: in step with each other,
  // cores would meet, or miss, what others send in every turn, as no machine does.
  double turn_s() {
    const double share = static_cast<double>(random_() - random_.min()) /
                         static_cast<double>(random_.max() - random_.min());
    return network_.switch_s + share * network_.switch_spread_s + network_.inside.poll_s;
  }

 private:
  const Network& network_;
  const int ranks_, per_node_;
  std::vector<Core> cores_;
  std::minstd_rand random_;  // the same in every simulation
};

}  // namespace weft::simulation
