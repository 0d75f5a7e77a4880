// Ports that messages share: where these are long, the port that carries most says what a call
// takes.
#include <gtest/gtest.h>

#include "tests/engine/tuner/simulations.h"

namespace weft {
namespace {

constexpr double kPortRate = 10 * kGiga;

// Nodes of so many ranks, in which nothing costs anything, with a NIC for each rank.
Network nodes_of(int ranks) {
  Network network;
  network.name = "nodes";
  network.node_ranks = ranks;
  network.between.port_rate = kPortRate;
  return network;
}

// A chunk is one message.
double seconds_of(Trial trial, const Network& network, double bytes) {
  trial.slot_bytes = trial.segment_bytes = 1 << 30;
  return run(trial, network, bytes).seconds;
}

TEST(Ports, OfANodeThatIsNotFullAreItsOwn) {
  constexpr double kBytes = 3e6;
  EXPECT_NEAR(seconds_of(trial_of("ring", Kind::all_reduce, 3), nodes_of(2), kBytes),
              2 * 2.0 / 3 * kBytes / kPortRate, 1e-12);
}

TEST(Ports, OfASwitchThatIsNotFullAreItsOwn) {
  constexpr double kBytes = 15e6;
  Network network = nodes_of(1);
  network.tiers = {{2, 0, 2}};
  for (const int ranks : {3, 5})
    EXPECT_NEAR(seconds_of(trial_of("ring", Kind::all_reduce, ranks), network, kBytes),
                2.0 * (ranks - 1) / ranks * kBytes / kPortRate, 1e-12);
}

TEST(Ports, WithoutARateHaveNoLimit) {
  for (const bool torus : {false, true}) {
    Network network = nodes_of(1);
    network.between = {.latency_s = 1 * kMicro};
    if (torus)
      network.torus = {4};
    else
      network.tiers = {{2, 0, 2}};
    EXPECT_NEAR(seconds_of(trial_of("ring", Kind::all_reduce, 4), network, 1e6), 6 * kMicro, 1e-12);
  }
}

// A message that waits for its sender's port keeps nobody from its receiver's.
TEST(Ports, WorkWhileThereIsWork) {
  constexpr double kBytes = 1 << 30;
  Trial trial = trial_of("double_tree", Kind::all_reduce, 16);
  trial.slot_bytes = trial.segment_bytes = 1 << 20;
  // Nearly every rank gets and gives the message twice, once on the way up and once down.
  EXPECT_NEAR(run(trial, nodes_of(1), kBytes).seconds / (2 * kBytes / kPortRate), 1, 0.02);
}

TEST(Ports, CarryWhatDirectExchangesSend) {
  constexpr double kBytes = 32e6;
  const double share = kBytes / 32, outside = 32 - 8;
  EXPECT_NEAR(seconds_of(trial_of("direct_two_shot", Kind::all_reduce, 32), nodes_of(8), kBytes),
              2 * outside * share / kPortRate, 1e-9);
}

TEST(Ports, OfUplinksCarryWhatLeavesTheirSwitch) {
  constexpr double kBytes = 64e6;
  Network network = nodes_of(1);
  network.tiers = {{8, 0, 2}};
  const double block = kBytes / 64, leaves = 8 * (64 - 8) * block;
  for (const bool representatives : {true, false}) {
    Trial trial = trial_of("pairwise", Kind::all_to_all, 64);
    trial.representatives = representatives;
    // The last message begins a few blocks after the first one that leaves.
    EXPECT_NEAR(seconds_of(trial, network, kBytes) / (leaves / (8 * kPortRate / 2)), 1, 0.02);
  }
}

}  // namespace
}  // namespace weft
