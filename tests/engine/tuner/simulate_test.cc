#include "engine/tuner/simulate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/tuner/bound.h"
#include "engine/tuner/simulate_cores.h"
#include "tests/engine/tuner/simulations.h"
#include "tests/support/sanitized.h"

namespace weft {
namespace {

TEST(Simulate, RingTakesItsHops) {
  for (const int n : {2, 3, 8, 17}) {
    const Simulated s = run(trial_of("ring", Kind::all_reduce, n), plain(), 1024);
    EXPECT_NEAR(s.seconds, (2 * (n - 1) * 11 + 1) * kMicro, 1e-12) << n;
    EXPECT_EQ(s.ranks, 1);
  }
}

TEST(Simulate, ShortBlocksHaveFewerPieces) {
  Trial trial = trial_of("ring", Kind::all_reduce, 4);
  trial.short_blocks = true;
  // One piece of up to 64 bytes goes round: three hops to be folded, three to be spread. The ranks
  // pass over the other pieces' steps, which cost their time before the first hop or beside it.
  const double one = run(trial, plain(), 64).seconds, four = run(trial, plain(), 256).seconds;
  EXPECT_GE(one, 6 * 11 * kMicro);
  EXPECT_LE(one, (6 * 11 + 7) * kMicro);
  EXPECT_NEAR(four, (6 * 11 + 1) * kMicro, 1e-12);
  EXPECT_EQ(run(trial, plain(), 64).ranks, 4);
  // The other pieces' steps take a step's own time, whatever bytes and messages cost: of the 28
  // steps of all ranks 7 are of the one piece.
  Network dear = plain();
  dear.inside.send_s = dear.inside.recv_s = 100 * kMicro;
  dear.memory = {{1, 1e6}};
  const Result<Simulation> simulation = Simulation::make(trial, dear);
  ASSERT_TRUE(simulation.ok());
  std::vector<SimulatedStep> trace;
  ASSERT_TRUE(simulation->run(64, &trace).ok());
  int empty = 0;
  for (const SimulatedStep& step : trace) empty += step.end_s - step.begin_s < 1.5 * kMicro;
  EXPECT_EQ(trace.size(), 28u);
  EXPECT_EQ(empty, 21);
}

// Of the messages of halving_doubling, which hold several pieces, those are sent that hold one of
// some bytes: three on the way to the owner of the only one, and three back.
TEST(Simulate, OfPiecesThatAreAllEmptyThereIsNoMessage) {
  Trial trial = trial_of("halving_doubling", Kind::all_reduce, 4);
  trial.short_blocks = true;
  Network dear = plain();
  dear.inside.send_s = dear.inside.recv_s = 100 * kMicro;
  const Result<Simulation> simulation = Simulation::make(trial, dear);
  ASSERT_TRUE(simulation.ok());
  for (const auto& [bytes, ends_of_messages] : {std::pair(64, 12), std::pair(256, 32)}) {
    std::vector<SimulatedStep> trace;
    ASSERT_TRUE(simulation->run(bytes, &trace).ok());
    int dear_steps = 0;
    for (const SimulatedStep& step : trace) dear_steps += step.end_s - step.begin_s > 50 * kMicro;
    EXPECT_EQ(dear_steps, ends_of_messages) << bytes;
  }
}

// -- calls that follow each other -----------------------------------------------------------------

TEST(Simulate, ARootRunsAheadAsFarAsItsLinksReach) {
  Trial trial = trial_of("knomial", Kind::broadcast, 2);
  const Network network = plain();
  EXPECT_NEAR(run(trial, network, 8).seconds, 12 * kMicro, 1e-12);
  // A slot is free again after a step, a hop, a step and a hop; there are eight.
  EXPECT_NEAR(pace(trial, network, 8), (1 + 10 + 1 + 10) / 8.0 * kMicro, 1e-9);
  trial.slots = 64;  // then the root's own two steps are what counts
  EXPECT_NEAR(pace(trial, network, 8), 2 * kMicro, 1e-9);
  Network slow = network;
  slow.call_s = 5 * kMicro;
  EXPECT_NEAR(pace(trial, slow, 8), 7 * kMicro, 1e-9);
}

TEST(Simulate, ManyCallsAreNoCheaperWhereAllWaitForAll) {
  const Trial trial = trial_of("recursive_doubling", Kind::all_reduce, 8);
  EXPECT_NEAR(pace(trial, plain(), 8) / run(trial, plain(), 8).seconds, 1, 0.1);
}

// Leases of megabytes go round in the window four at a time: then everybody has to be done.
TEST(Simulate, LeasesHoldBackWhoRunsAhead) {
  Trial trial = trial_of("window_one_shot", Kind::broadcast, 2);
  trial.segment_bytes = 1 << 20;
  Network network = plain();
  const double small = pace(trial, network, 8), large = pace(trial, network, 1 << 20);
  EXPECT_LT(small, 3 * kMicro);
  EXPECT_GT(large, 2 * small);
  EXPECT_LT(large, run(trial, network, 1 << 20).seconds);
}

TEST(Simulate, MessagesOfManyRoundsKeepTheirPaceInALoop) {
  const Network& network = *find_example_network("node");
  Trial trial = trial_of("ring", Kind::all_reduce, 4);
  const double alone = run(trial, network, 64 << 20).seconds;
  EXPECT_NEAR(pace(trial, network, 64 << 20) / alone, 1, 0.1);
  trial.step_budget = 5000;
  EXPECT_NEAR(pace(trial, network, 64 << 20) / alone, 1, 0.1);
}

// -- cores ----------------------------------------------------------------------------------------

TEST(Cores, GoRoundTheirRanks) {
  Network network = plain();
  network.node_cores = 2;
  simulation::Cores cores(network, 7);  // 0, 2, 4 and 6 on one
  EXPECT_EQ(&cores.of(4), &cores.of(0));
  EXPECT_NE(&cores.of(4), &cores.of(1));
  EXPECT_EQ(cores.sharers(2), 4);
  EXPECT_EQ(cores.sharers(5), 3);
  EXPECT_EQ(cores.next(0), 2);
  EXPECT_EQ(cores.next(6), 0);
  EXPECT_EQ(cores.next(5), 1);
  network.node_ranks = 4;  // and on nodes of their own
  simulation::Cores apart(network, 8);
  EXPECT_EQ(apart.sharers(5), 2);
  EXPECT_EQ(apart.next(5), 7);
  EXPECT_EQ(apart.next(7), 5);
}

TEST(Cores, OrHaveNeighboursEach) {
  Network network = plain();
  network.node_cores = 2;
  network.core_blocks = true;
  simulation::Cores cores(network, 7);  // 0 to 3 on one
  EXPECT_EQ(&cores.of(3), &cores.of(0));
  EXPECT_NE(&cores.of(4), &cores.of(0));
  EXPECT_EQ(cores.sharers(2), 4);
  EXPECT_EQ(cores.sharers(6), 3);
  EXPECT_EQ(cores.next(3), 0);
  EXPECT_EQ(cores.next(4), 5);
  EXPECT_EQ(cores.next(6), 4);
  int beside = 0;
  cores.each_beside(
      5, [&](const simulation::Core& core) { EXPECT_EQ(&core, &cores.of(beside++ == 0 ? 0 : 4)); });
  EXPECT_EQ(beside, 2);
  network.node_ranks = 4;  // and on nodes of their own
  simulation::Cores apart(network, 8);
  EXPECT_EQ(apart.next(4), 5);
  EXPECT_EQ(apart.next(5), 4);
  EXPECT_EQ(apart.next(7), 6);
}

TEST(Cores, TurnsTakeWhatWasMeasuredAndAreRepeated) {
  Network network = plain();
  network.node_cores = 2;
  network.switch_s = 1;
  network.switch_spread_s = 0.25;
  network.step_s = 0.125;
  network.inside.poll_s = 0.375;
  simulation::Cores cores(network, 6);
  std::vector<double> turns;
  for (int i = 0; i < 100; ++i) turns.push_back(cores.turn_s(cores.of(0)));
  const auto [least, most] = std::minmax_element(turns.begin(), turns.end());
  EXPECT_GE(*least, 1.5);
  EXPECT_LT(*least, 1.6);
  EXPECT_LE(*most, 1.75);
  EXPECT_GT(*most, 1.65);
  cores.reset();
  for (const double turn : turns) ASSERT_EQ(cores.turn_s(cores.of(0)), turn);
  EXPECT_NE(cores.turn_s(cores.of(0)), cores.turn_s(cores.of(1)));
}

// Switches take far more than anything else.
Network crowded(int cores) {
  Network network = plain();
  network.inside.latency_s = 1 * kMicro;
  network.node_cores = cores;
  network.switch_s = 100 * kMicro;
  return network;
}

TEST(Cores, AreKeptForARankThatRunsOnAnother) {
  Network network = crowded(2);
  const Trial doubling = trial_of("recursive_doubling", Kind::all_reduce, 4);
  const double without = pace(doubling, network, 64);
  network.inside.patience_s = 100 * kMicro;
  EXPECT_LT(pace(doubling, network, 64), 0.7 * without);
}

// Not for as long where nobody runs meanwhile.
TEST(Cores, AreGivenAwayAfterThreeLooks) {
  Network network = crowded(1);
  const Trial doubling = trial_of("recursive_doubling", Kind::all_reduce, 4);
  const double at_once = pace(doubling, network, 64);
  network.inside.patience_s = 120 * kMicro;  // 5 us a look
  EXPECT_DOUBLE_EQ(simulation::Cores(network, 4).spins_s(), 10 * kMicro);
  const double after_looks = pace(doubling, network, 64);
  EXPECT_GT(after_looks, 1.05 * at_once);
  EXPECT_LT(after_looks, 1.11 * at_once);
}

// That something has come they find out by the next of the looks that fill their patience.
TEST(Cores, RanksThatKeepTheirCoreFindOutWhenTheyLook) {
  Network network = crowded(2);
  network.inside.patience_s = 24;  // a look in every second
  simulation::Cores cores(network, 4);
  for (int i = 0; i < 100; ++i) {
    const double look = cores.look_s(cores.of(1));
    EXPECT_TRUE(look >= 0 && look <= 1) << look;
  }
  const Trial doubling = trial_of("recursive_doubling", Kind::all_reduce, 4);
  const double a_call = run(doubling, network, 64).seconds;
  EXPECT_GT(a_call, 0.01);
  EXPECT_LT(a_call, 10);
}

TEST(Cores, RanksThatSleepAreWokenInOneTurn) {
  Network network = plain();
  const Trial ring = trial_of("ring", Kind::all_reduce, 4);
  network.inside.latency_s = 1;
  const double own = run(ring, network, 64).seconds;
  network.node_cores = 2;
  network.switch_s = 1e-3;
  const double shared = run(ring, network, 64).seconds;
  EXPECT_GT(shared, own + 6 * 1e-3);  // hops
  EXPECT_LT(shared, own + 4 * 6 * 1e-3);
}

TEST(Simulate, SwitchesAreSharedByTheCallsThatRunAhead) {
  Network network = plain();
  network.inside.latency_s = 0;
  network.node_cores = 2;
  network.switch_s = 100 * kMicro;
  const Trial tree = trial_of("knomial", Kind::broadcast, 4);
  EXPECT_GT(run(tree, network, 8).seconds, 100 * kMicro);
  EXPECT_LT(pace(tree, network, 8), 60 * kMicro);  // eight calls for a turn each
  const Trial ring = trial_of("ring", Kind::all_reduce, 4);
  EXPECT_GT(pace(ring, network, 8), 200 * kMicro);
}

TEST(Simulate, CoresThatAreEnoughAreNoMatter) {
  Network network = plain();
  const Trial trial = trial_of("ring", Kind::all_reduce, 8);
  network.node_cores = 8;
  network.switch_s = 1;
  EXPECT_EQ(run(trial, network, 64).ranks, 1);
  EXPECT_NEAR(run(trial, network, 64).seconds, run(trial, plain(), 64).seconds, 1e-12);
}

// -- what networks are like
// ------------------------------------------------------------------------

TEST(Simulate, NeedsRoomForItsMessages) {
  Trial trial = trial_of("bruck", Kind::all_gather, 64);  // up to 32 chunks in a message
  trial.slot_bytes = 64;
  trial.slots = 4;
  const Result<Simulation> simulation = Simulation::make(trial, plain());
  ASSERT_FALSE(simulation.ok());
  EXPECT_NE(simulation.status().message().find("more room"), std::string::npos);
}

TEST(Simulate, PortsTakeTheirTime) {
  Network network = plain();
  network.inside.port_rate = 1e9;
  const Trial trial = trial_of("ring", Kind::all_reduce, 8);
  const double bytes = 64e3;  // 8 us a piece
  EXPECT_NEAR(run(trial, network, bytes).seconds, (14 * (11 + 8) + 1) * kMicro, 1e-12);
  network.memory = {{1, 4e9}};  // each step reads or writes 2 to 4 times 8000 bytes at 0.25 ns
  EXPECT_GT(run(trial, network, bytes).seconds, (14 * (11 + 8 + 4) + 1) * kMicro);
}

TEST(Simulate, AReceiversPortIsSharedByItsSenders) {
  Network network = plain();
  network.inside.port_rate = 1e9;
  const double block = 100e3;  // 100 us at the root's port, one after the other
  const Simulated s = run(
      [] {
        Trial trial = trial_of("direct_one_shot", Kind::gather, 5);
        trial.segment_bytes = trial.slot_bytes = 1 << 20;
        return trial;
      }(),
      network, 5 * block);
  EXPECT_GE(s.seconds, 400 * kMicro);
  EXPECT_LE(s.seconds, 420 * kMicro);
}

TEST(Simulate, RanksOfOneCoreTakeTurns) {
  Network network = plain();
  network.inside.latency_s = 0;
  Trial trial = trial_of("ring", Kind::all_reduce, 4);
  const double alone = run(trial, network, 64).seconds;
  network.node_cores = 1;
  const Simulated together = run(trial, network, 64);
  EXPECT_EQ(together.ranks, 4);
  EXPECT_GE(together.seconds, 4 * alone);
  EXPECT_LT(together.seconds, 6 * alone);  // with the looks of those that find nothing
  network.switch_s = 5 * kMicro;
  EXPECT_GT(run(trial, network, 64).seconds, 2 * together.seconds);
}

TEST(Simulate, SlotsBetweenRanksOfACoreTakeRoomInItsCaches) {
  Network network = plain();
  network.inside.mapped = true;
  network.memory = {{16 << 10, 100e9}, {64 << 10, 1e9}};
  const auto seconds = [&](int slots) {
    Trial trial = trial_of("knomial", Kind::broadcast, 2);
    trial.slots = slots;
    return run(trial, network, 4096).seconds;
  };
  network.node_cores = 2;
  EXPECT_DOUBLE_EQ(seconds(16), seconds(2));
  network.node_cores = 1;
  EXPECT_GT(seconds(16), seconds(2) + 4 * kMicro);
}

TEST(Simulate, MessagesOfManyRoundsGoOnAtTheSamePace) {
  const Network& network = *find_example_network("nvlink");
  for (const char* algorithm : {"ring", "knomial", "double_tree"}) {
    Trial trial = trial_of(algorithm, Kind::all_reduce, 16);
    const Simulated all = run(trial, network, 64 << 20);
    EXPECT_EQ(all.rounds, all.rounds_played);
    trial.step_budget = 10e3;
    const Simulated some = run(trial, network, 64 << 20);
    EXPECT_LT(some.rounds_played, 0.7 * all.rounds_played);
    EXPECT_NEAR(some.seconds / all.seconds, 1, 0.02) << algorithm;
  }
}

TEST(Simulate, SaysWhereThePaceHasNotSettled) {
  Trial trial = trial_of("double_tree", Kind::all_reduce, 512);
  trial.step_budget = 10e3;
  EXPECT_FALSE(run(trial, *find_example_network("nvlink"), 1 << 30).settled);
  EXPECT_TRUE(run(trial, *find_example_network("nvlink"), 1 << 10).settled);
}

TEST(Simulate, WindowsNeedSharedMemory) {
  const Trial trial = trial_of("window_one_shot", Kind::all_reduce, 8);
  EXPECT_GT(run(trial, *find_example_network("node"), 64).seconds, 0);
  const Result<Simulation> simulation = Simulation::make(trial, *find_example_network("nvlink"));
  ASSERT_FALSE(simulation.ok());
  EXPECT_NE(simulation.status().message().find("share memory"), std::string::npos);
}

TEST(Simulate, SaysWhenAScheduleBlocks) {
  Trial trial = trial_of("ring", Kind::all_reduce, 4);
  trial.slots = 1;
  const Result<Simulation> simulation = Simulation::make(trial, plain());
  ASSERT_TRUE(simulation.ok());
  const Result<Simulated> simulated = simulation->run(1 << 20);
  ASSERT_FALSE(simulated.ok());
  EXPECT_NE(simulated.status().message().find("blocks with 1 slots"), std::string::npos);
}

TEST(Simulate, TraceHoldsEveryStepOnceInOrder) {
  const Result<Simulation> simulation =
      Simulation::make(trial_of("double_tree", Kind::all_reduce, 6), plain());
  ASSERT_TRUE(simulation.ok());
  std::vector<SimulatedStep> trace;
  const Result<Simulated> simulated = simulation->run(300e3, &trace);
  ASSERT_TRUE(simulated.ok());
  EXPECT_EQ(static_cast<double>(trace.size()), simulated->steps);
  double last = 0;
  for (const SimulatedStep& step : trace) {
    EXPECT_NEAR(step.end_s - step.begin_s, 1 * kMicro, 1e-12);
    last = std::max(last, step.end_s);
  }
  EXPECT_EQ(last, simulated->seconds);
}

// The examples, one whose nodes are not alike, some that write results faster than they read, and
// one whose memory is the faster the more of it is in use.
std::vector<Network> networks_to_bound() {
  std::vector<Network> all;
  for (const std::string& name : example_networks()) all.push_back(*find_example_network(name));
  Network uneven = *find_example_network("nvlink");
  uneven.name = "uneven";
  uneven.node_ranks = 4;
  uneven.node_nics = 1;
  all.push_back(uneven);
  Network streams = *find_example_network("node");
  for (const double rate : {18 * kGiga, 100 * kGiga}) {
    streams.stream_rate = rate;
    all.push_back(streams);
  }
  Network ascends = *find_example_network("node");
  ascends.memory = {{1 << 10, 1 * kGiga}, {16 << 20, 100 * kGiga}};
  all.push_back(ascends);
  return all;
}

TEST(Bound, IsBelowEveryAlgorithm) {
  int compared = 0;
  for (const Network& network : networks_to_bound())
    for (const int ranks : test::kSanitized ? std::vector{2, 5, 8} : std::vector{2, 5, 8, 16, 24}) {
      const std::string& name = network.name;
      for (const Algorithm& algorithm : catalog())
        for (int k = 0; k < kKinds; ++k) {
          Trial trial;
          trial.algorithm = &algorithm;
          trial.collective = {static_cast<Kind>(k), ranks, 0, false};
          if (trial.collective.kind == Kind::exchange || !algorithm.suits(trial.collective))
            continue;
          if (algorithm.windows && name != "node") continue;
          if (algorithm.registered || algorithm.readable)
            continue;  // bounds are those of memory that peers cannot reach
          for (const double bytes : {8.0, 100e3, 30e6}) {
            EXPECT_GE(run(trial, network, bytes).seconds * (1 + 1e-9),
                      lower_bound(network, trial.collective, bytes))
                << algorithm.name << ", " << weft::name(trial.collective.kind) << " of " << ranks
                << " on " << name << ", " << bytes;
            ++compared;
          }
        }
    }
  EXPECT_GT(compared, test::kSanitized ? 500 : 1000);
}

}  // namespace
}  // namespace weft
