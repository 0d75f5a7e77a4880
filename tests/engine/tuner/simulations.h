// Simulations of one case, and the network that most of them are on.
#pragma once

#include <gtest/gtest.h>

#include "engine/tuner/simulate.h"

namespace weft {

// One node in which messages have a latency and steps a time, and nothing else costs anything.
inline Network plain() {
  Network network;
  network.name = "plain";
  network.step_s = 1 * kMicro;
  network.inside.latency_s = 10 * kMicro;
  return network;
}

inline Trial trial_of(const char* algorithm, Kind kind, int ranks) {
  Trial trial;
  trial.algorithm = find_algorithm(algorithm);
  trial.collective = {kind, ranks, 0, false};
  return trial;
}

inline Simulated run(const Trial& trial, const Network& network, double bytes) {
  const Result<Simulation> simulation = Simulation::make(trial, network);
  EXPECT_TRUE(simulation.ok()) << simulation.status().message();
  const Result<Simulated> simulated = simulation->run(bytes);
  EXPECT_TRUE(simulated.ok()) << simulated.status().message();
  return *simulated;
}

// Of calls that follow each other.
inline double pace(Trial trial, const Network& network, double bytes) {
  trial.repeated = true;
  return run(trial, network, bytes).seconds;
}

}  // namespace weft
