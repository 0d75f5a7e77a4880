// Whole engines over the simulated medium: all ranks in one thread, virtual time, everything from a
// seed, so that a failing seed repeats exactly.
#pragma once

#include <memory>
#include <random>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "transport/sim/sim.h"

namespace weft::test {

class SimWorld {
 public:
  SimWorld(int ranks, const SimOptions& sim, const Options& options);

  Engine& engine(Rank rank) { return *engines_[static_cast<size_t>(rank)]; }
  SimNet& net() { return *net_; }

  // Polls ranks in random order, one leaving out now and then, until all works are done. False when
  // virtual time has passed all deadlines and they are not. `asleep`: a rank that is not polled.
  bool finish(std::span<const Work> works, Rank asleep = -1);
  // One such round over all ranks.
  void poll(Rank asleep = -1);

 private:
  std::shared_ptr<SimNet> net_;
  std::mt19937_64 random_;
  double patience_s_;  // virtual
  std::vector<Transport*> media_;
  std::vector<std::unique_ptr<Engine>> engines_;
};

}  // namespace weft::test
