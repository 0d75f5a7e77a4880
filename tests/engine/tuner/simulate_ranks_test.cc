// What ranks do themselves, and what it costs: steps, folds, bytes in memory, links and windows.
#include <gtest/gtest.h>

#include "kernels/claim.h"
#include "tests/engine/tuner/simulations.h"

namespace weft {
namespace {

TEST(Simulate, FoldsCostMoreThanCopies) {
  Network network = plain();
  const Trial trial = trial_of("knomial", Kind::reduce, 2);
  const double copies = run(trial, network, 8).seconds;
  network.fold_s = 3 * kMicro;
  EXPECT_NEAR(run(trial, network, 8).seconds, copies + 3 * kMicro, 1e-12);
}

TEST(Simulate, LinesSaveASignalAndCostAStepEach) {
  Network network = plain();
  network.inside.signal_s = 2 * kMicro;  // whoever gives it, and whoever sees it
  Trial trial = trial_of("window_one_shot", Kind::all_reduce, 2);
  const double simple = run(trial, network, 8).seconds;
  trial.ll = true;
  EXPECT_NEAR(run(trial, network, 8).seconds, simple - 2 * kMicro, 1e-9);
  EXPECT_GT(run(trial, network, 8 * 248).seconds, simple);
}

TEST(Simulate, ShortMessagesAreSlowerByTheByte) {
  const Trial trial = trial_of("ring", Kind::all_reduce, 2);
  Network both = plain(), slow = plain(), fast = plain();
  both.inside.rank_rates = {{1024, 1e6}, {64 << 10, 1e9}};
  slow.inside.rank_rates = {{1, 1e6}};
  fast.inside.rank_rates = {{1, 1e9}};
  EXPECT_EQ(run(trial, both, 2048).seconds, run(trial, slow, 2048).seconds);
  EXPECT_EQ(run(trial, both, 2 << 20).seconds, run(trial, fast, 2 << 20).seconds);
  EXPECT_GT(run(trial, slow, 2 << 20).seconds, 100 * run(trial, fast, 2 << 20).seconds);
}

TEST(Simulate, WindowsHaveARateOfTheirOwn) {
  Network links = plain(), both = plain();
  links.inside.rank_rates = both.inside.rank_rates = {{1, 1e9}};
  both.inside.window_rates = {{1, 2e9}};
  const Trial ring = trial_of("ring", Kind::all_reduce, 2),
              windows = trial_of("window_one_shot", Kind::all_gather, 2);
  EXPECT_EQ(run(ring, both, 1 << 20).seconds, run(ring, links, 1 << 20).seconds);
  EXPECT_LT(run(windows, both, 1 << 20).seconds, 0.6 * run(windows, links, 1 << 20).seconds);
}

// Of four times half a message that goes through windows, two are read there, and two written.
TEST(Simulate, WhatIsHandedBackIsWrittenInTheOwnCache) {
  Network network = plain();
  network.inside.window_rates = {{1, 1e9}};
  const Trial trip = trial_of("window_round_trip", Kind::all_reduce, 2),
              two_shot = trial_of("window_two_shot", Kind::all_reduce, 2);
  const double all_cross = run(two_shot, network, 1 << 20).seconds;
  EXPECT_NEAR(run(trip, network, 1 << 20).seconds / all_cross, 0.5, 0.05);
  network.memory = {{1, 1e9}};  // a cache that is no faster than another core's
  EXPECT_NEAR(run(trip, network, 1 << 20).seconds / run(two_shot, network, 1 << 20).seconds, 1,
              0.02);
}

// A call claims as few bytes for the next one while it waits, unless others want its core then.
TEST(Simulate, WhatIsHandedBackSavesHalfAsMuchWhereItWouldBeClaimed) {
  Network network = plain();
  network.inside.window_rates = {{1, 1e6}};  // so slow that nothing else counts
  network.inside.claims = true;
  const auto share = [&](int ranks, size_t bytes) {
    return run(trial_of("window_round_trip", Kind::all_reduce, ranks), network, bytes).seconds /
           run(trial_of("window_two_shot", Kind::all_reduce, ranks), network, bytes).seconds;
  };
  EXPECT_NEAR(share(2, 2 * kClaimedNextMost), 0.75, 0.02);
  EXPECT_NEAR(share(2, 2 * kClaimedNextMost + 128), 0.5, 0.02);
  const auto edge = [&] {
    return share(4, 4 * kClaimedNextMost) / share(4, 4 * kClaimedNextMost + 256);
  };
  EXPECT_GT(edge(), 1.2);
  network.node_cores = 2;
  EXPECT_NEAR(edge(), 1, 0.02);
  network.node_cores = 0;
  network.inside.claims = false;
  EXPECT_NEAR(share(2, 2 * kClaimedNextMost), 0.5, 0.02);
}

// Over links and over windows, at both ends.
TEST(Simulate, RanksThatOnlySendOrOnlyReceiveGoByRatesOfTheirOwn) {
  const Network same = [] {
    Network n = plain();
    n.inside.rank_rates = n.inside.window_rates = {{1, 1e9}};
    return n;
  }();
  for (const auto& [algorithm, exchange] :
       {std::pair("knomial", "ring"), std::pair("window_one_shot", "window_one_shot")}) {
    Network apart = same;
    apart.inside.rank_one_way_rates = apart.inside.window_one_way_rates = {{1, 4e9}};
    const auto seconds = [](const Trial& trial, const Network& network) {
      return run(trial, network, 1 << 20).seconds;
    };
    for (const Kind kind : {Kind::broadcast, Kind::reduce}) {
      const Trial trial = trial_of(algorithm, kind, 2);
      EXPECT_LT(seconds(trial, apart), 0.35 * seconds(trial, same)) << algorithm;
    }
    const Trial both = trial_of(exchange, Kind::all_reduce, 2);
    EXPECT_EQ(seconds(both, apart), seconds(both, same)) << exchange;
  }
}

TEST(Simulate, AMessageIsOnItsWayBeforeItsSenderIsDone) {
  Network network = plain();
  network.inside.send_s = 30 * kMicro;
  const Trial once = trial_of("knomial", Kind::broadcast, 2),
              twice = trial_of("knomial", Kind::all_reduce, 2);
  const double one = run(once, network, 8).seconds, two = run(twice, network, 8).seconds;
  const double calls = pace(once, network, 8);
  network.inside.send_tail_s = 5 * kMicro;
  EXPECT_NEAR(run(once, network, 8).seconds, one - 5 * kMicro, 1e-12);
  EXPECT_NEAR(run(twice, network, 8).seconds, two - 10 * kMicro, 1e-12);
  EXPECT_NEAR(pace(once, network, 8), calls, 1e-12);  // the sender has to do it all the same
  network.inside.send_tail_s = 20 * kMicro;           // the receiver is done before the sender
  EXPECT_NEAR(run(once, network, 8).seconds, 32 * kMicro, 1e-12);  // the root's two steps
}

// Over links and over windows.
TEST(Simulate, WhatCrossesBetweenRanksOfACoreIsInItsCache) {
  for (const char* algorithm : {"ring", "window_two_shot"}) {
    const Trial trial = trial_of(algorithm, Kind::all_reduce, 2);
    Network network = plain();
    network.inside.rank_rates = {{1, 1e6}};
    network.memory = {{1, 1e9}};
    const auto seconds = [&](int cores, bool mapped) {
      network.node_cores = cores;
      network.inside.mapped = mapped;
      return run(trial, network, 1 << 20).seconds;
    };
    // Half a message is folded and passed on, where nothing is mapped through a slot each time, and
    // through the memory of a socket.
    const double slots = trial.algorithm->windows ? 0 : 4 * (1 << 20) / 1e9;
    EXPECT_NEAR(seconds(2, false) - seconds(2, true), slots, 1e-12) << algorithm;
    EXPECT_LT(seconds(1, true), 0.8 * seconds(1, false)) << algorithm;
  }
}

// A socket takes messages out of a caller's memory into its own, and puts them into a caller's from
// there; what is folded lies in a slot, which the kernel writes and the rank reads.
TEST(Simulate, OnlyWhatIsFoldedPassesThroughSlotsOfSockets) {
  constexpr double kBytes = 1 << 20;
  Network sockets = plain();
  sockets.inside.rank_rates = {{1, 1e15}};
  sockets.memory = {{1, 1e9}};
  Network shared = sockets;
  shared.inside.mapped = true;
  const Trial moved = trial_of("knomial", Kind::broadcast, 2),
              folded = trial_of("knomial", Kind::reduce, 2);
  const auto more = [&](const Trial& trial) {
    return run(trial, sockets, kBytes).seconds - run(trial, shared, kBytes).seconds;
  };
  // In many rounds: the two ends are at work at once, but for the first.
  EXPECT_NEAR(more(moved), kBytes / 1e9, 1e-4);
  EXPECT_NEAR(more(folded), 3 * kBytes / 1e9, 1e-4);
}

// Messages of 256 KiB, beside 2 MiB of input and output: 3 out and 3 in at either hop; in a ring
// one each way, in sockets and in slots.
TEST(Simulate, WhatIsUnderWayInSocketsTakesCaches) {
  Network network = plain();
  network.inside.rank_rates = {{1, 1e9}};
  Trial direct = trial_of("direct_two_shot", Kind::all_reduce, 4),
        ring = trial_of("ring", Kind::all_reduce, 4);
  for (Trial* trial : {&direct, &ring}) trial->slot_bytes = trial->segment_bytes = 1 << 20;
  const auto seconds = [&](const Trial& trial, double slow_footprint) {
    network.memory = {{3.1 * (1 << 20), 1e15}, {slow_footprint, 1e9}};
    return run(trial, network, 1 << 20).seconds;
  };
  EXPECT_EQ(seconds(ring, 3.2 * (1 << 20)), seconds(ring, 4 * (1 << 20)));
  EXPECT_GT(seconds(direct, 4 * (1 << 20)), 2 * seconds(ring, 4 * (1 << 20)));
}

// What is under way goes round in memory of its own: a round of a ring's 8 chunks is in no cache
// here, the message that it passes on is.
TEST(Simulate, WhatIsUnderWayStaysInCachesThatHoldNoRound) {
  Network network = plain();
  network.inside.rank_rates = {{1, 1e15}};
  network.memory = {{1 << 20, 1e15}, {2 << 20, 1e9}};
  Trial trial = trial_of("ring", Kind::all_reduce, 8);
  trial.slot_bytes = trial.segment_bytes = 128 << 10;
  constexpr double kBytes = 64 << 20;
  EXPECT_NEAR(run(trial, network, kBytes).seconds / (2 * kBytes / 1e9), 1, 0.1);
  network.memory[0].bytes = 256 << 10;  // of four, in the ends of sockets and in slots
  network.memory[1].bytes = 300 << 10;
  EXPECT_GT(run(trial, network, kBytes).seconds / (2 * kBytes / 1e9), 4);
}

// Of several chunks.
TEST(Simulate, MessagesGoByTheLengthOfTheWhole) {
  const Trial trial = trial_of("bruck", Kind::all_gather, 8);  // 1, 2 and 4 blocks at once
  Network network = plain();
  network.inside.rank_rates = {{1, 1e6}};
  const double slow = run(trial, network, 8 * 1024).seconds;
  network.inside.rank_rates = {{1024, 1e6}, {4096, 1e12}};
  const double one_of_three = run(trial, network, 8 * 1024).seconds;
  EXPECT_LT(one_of_three, 0.3 * slow);
  EXPECT_GT(one_of_three, 2 * 1024 / 1e6);  // the first is as slow as before
}

// Each copy of a lane reads and writes what no other does: memory is as dear as with one.
TEST(Simulate, CopiesOfLanesSaveNoMemory) {
  for (const char* algorithm : {"ring", "window_two_shot", "double_tree"}) {
    Trial trial = trial_of(algorithm, Kind::all_reduce, 2);
    Network network;
    network.name = "caches and memory";
    network.memory = {{1 << 20, 1e15}, {2 << 20, 1e9}};
    const double one = run(trial, network, 64 << 20).seconds;
    EXPECT_GT(one, 0.1) << algorithm;  // 128 MiB
    for (const int copies : {2, 4}) {
      trial.copies = copies;
      EXPECT_NEAR(run(trial, network, 64 << 20).seconds / one, 1, 0.05) << algorithm << copies;
    }
  }
}

// 4 ranks of 2 MiB, input and output, do not fit where those of one do.
TEST(Simulate, RanksOfACoreShareItsCaches) {
  for (const char* algorithm : {"ring", "window_two_shot"}) {
    const Trial trial = trial_of(algorithm, Kind::all_reduce, 4);
    Network network;
    network.name = "caches and memory";
    network.memory = {{4 << 20, 1e15}, {6 << 20, 1e9}};
    const auto seconds = [&](int cores) {
      network.node_cores = cores;
      return run(trial, network, 1 << 20).seconds;
    };
    EXPECT_LT(seconds(0), 1e-6) << algorithm;
    EXPECT_EQ(seconds(4), seconds(0)) << algorithm;
    EXPECT_GT(seconds(1), 4e-3) << algorithm;
  }
}

// Two lanes to two neighbours, each with slots of 512 KiB in all: twice that where ranks share.
TEST(Simulate, LinksThatGoRoundInMuchMemoryAreNoFasterThanWindows) {
  Network network = plain();
  network.inside.mapped = true;
  network.inside.rank_rates = {{1, 8e9}};
  network.inside.window_rates = {{1, 1e9}};
  Trial trial = trial_of("ring", Kind::all_reduce, 4);
  trial.slots = 8;
  trial.slot_bytes = 64 << 10;
  trial.copies = 2;
  const auto seconds = [&](int cores, double bytes) {
    network.node_cores = cores;
    return run(trial, network, bytes).seconds;
  };
  const double own = seconds(4, 1 << 20), shared = seconds(2, 1 << 20), small = seconds(2, 4096);
  network.inside.window_rates = {{1, 8e9}};
  EXPECT_EQ(seconds(4, 1 << 20), own);
  EXPECT_LT(seconds(2, 1 << 20), 0.5 * shared);
  EXPECT_EQ(seconds(2, 4096), small);  // messages that fill little of their slots
}

// They have told each other where buffers lie, and waited for that: nobody reads on in the next
// call while a rank of its core has not read in this one. To say so once more costs no signal.
TEST(Simulate, RanksThatReadEachOthersMemoryKeepInStep) {
  Network network = plain();
  network.inside.read_rates = {{4096, 1e9}};
  network.node_ranks = 8;
  network.node_cores = 2;
  network.switch_s = 1 * kMicro;
  for (const double bytes : {64e3, 1e6, 8e6, 64e6})
    EXPECT_GT(pace(trial_of("pull", Kind::broadcast, 8), network, bytes), 4 * bytes / 1e9);

  network.inside.signal_s = 2 * kMicro;
  Trial trial = trial_of("pull", Kind::all_gather, 2);
  const double once = run(trial, network, 1e6).seconds;
  Algorithm twice = *trial.algorithm;
  twice.entered = -1;
  trial.algorithm = &twice;
  EXPECT_GT(run(trial, network, 1e6).seconds, once + network.inside.signal_s);
}

TEST(Simulate, LargeResultsAreWrittenPastTheCaches) {
  Network network = plain();
  network.memory = {{1, 1e9}};
  const Trial trial = trial_of("ring", Kind::all_gather, 4);
  const double cached = run(trial, network, 64 << 20).seconds;
  network.stream_rate = 4e9;
  EXPECT_LT(run(trial, network, 64 << 20).seconds, 0.9 * cached);
  const double small = run(trial, network, 1 << 20).seconds;
  network.stream_rate = 0;
  EXPECT_EQ(run(trial, network, 1 << 20).seconds, small);
}

}  // namespace
}  // namespace weft
