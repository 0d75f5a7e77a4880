// The cores of a simulation: who runs on which, and when a rank that became ready gets its turn.
//
// A rank that finds nothing to do lets the next one of its core run, and so on round the core, each
// turn taking Network::switch_s, and before it Medium::poll_s for finding nothing. So a core is
// with a rank as long as that has something to do; then with the next one that has, after the
// switches on the way; and where none has, a rank that becomes ready waits until the core comes
// round to it.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/tuner/network.h"

namespace weft::simulation {

struct Core {
  double free = 0;         // when what it does now ends
  bool held = false;       // by a step that is just ending, or a rank between two calls
  Rank running = -1;       // the last rank that it turned to; -1: none yet
  double idle_since = 0;   // REQUIRES: nobody waits for it
  std::vector<int> ready;  // lanes that wait for it, in order
};

class Cores {
 public:
  Cores(const Network& network, int ranks)
      : network_(network),
        ranks_(ranks),
        per_node_(network.node_ranks > 0 ? network.node_ranks : ranks),
        cores_(static_cast<size_t>(ranks)) {}

  void reset() { cores_.assign(cores_.size(), {}); }

  Core& of(Rank rank) { return cores_[static_cast<size_t>(network_.first_of_core(rank))]; }

  // How many turns on from the rank that runs: 0 for that one itself.
  int turns_to(const Core& core, Rank rank) const {
    if (core.running < 0 || core.running == rank) return 0;
    const int around = sharers(rank);
    return (place(rank) - place(core.running) + around) % around;
  }

  // How long a core takes to get to a rank that is ready.
  double time_to(const Core& core, Rank rank) const {
    const int turns = turns_to(core, rank);
    return turns == 0 ? 0 : turns * turn_s() - network_.inside.poll_s;
  }

  // When an idle core gets to a rank that is ready now.
  double turn_of(const Core& core, Rank rank, double now) const {
    const int around = sharers(rank);
    if (around == 1 || network_.switch_s <= 0 || core.running < 0) return now;
    const int turns = turns_to(core, rank);
    const double first = core.idle_since + turns * turn_s();
    const double whole = around * turn_s();
    return first + whole * std::ceil(std::max(0.0, now - first) / whole - 1e-9);
  }

 private:
  double turn_s() const { return network_.switch_s + network_.inside.poll_s; }
  int place(Rank rank) const { return rank % per_node_ / network_.node_cores; }
  // Ranks on the core of `rank`.
  int sharers(Rank rank) const {
    if (network_.node_cores == 0) return 1;
    const int first = rank / per_node_ * per_node_;
    const int here = std::min(per_node_, ranks_ - first);
    return (here - (rank - first) % network_.node_cores - 1) / network_.node_cores + 1;
  }

  const Network& network_;
  const int ranks_, per_node_;
  std::vector<Core> cores_;
};

}  // namespace weft::simulation
