#include "engine/tuner/tuner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "engine/tuner/simulate.h"
#include "tests/engine/tuner/offers.h"
#include "tests/support/sanitized.h"

namespace weft {
namespace {

Demand demand(Kind kind, int ranks) {
  Demand d;
  d.collective = {kind, ranks, 0, false};
  d.slot_bytes = 64 << 10;
  d.slots = 8;
  return d;
}

TEST(Tuner, HasAnOfferForEverything) {
  Tuner tuner(network(kMicro, kMicro));
  for (int k = 0; k < kKinds; ++k) {
    const Kind kind = static_cast<Kind>(k);
    if (kind == Kind::exchange || kind == Kind::barrier) continue;
    for (const int ranks : {2, 3, 6, 8, test::kSanitized ? 9 : 65})
      for (const size_t bytes : {0, 1, 5000, 1 << 20})
        for (const bool windows : {false, true}) {
          Demand d = demand(kind, ranks);
          d.windows = windows;
          EXPECT_FALSE(tuner.offers(d, bytes).empty()) << name(kind) << " " << ranks;
        }
  }
}

TEST(Tuner, OffersTheCheapestFirstAtTheSimulatedPrice) {
  Tuner tuner(network(10 * kMicro, 0));
  const Demand d = demand(Kind::all_reduce, 8);
  const std::vector<Offer>& offers = tuner.offers(d, 4096);
  ASSERT_GT(offers.size(), 5u);
  for (size_t i = 1; i < offers.size(); ++i) EXPECT_GE(offers[i].seconds, offers[i - 1].seconds);
  Trial trial;
  trial.algorithm = offers.back().algorithm;
  trial.collective = d.collective;
  trial.repeated = true;
  const auto simulation = Simulation::make(trial, tuner.network());
  EXPECT_NEAR(simulation->run(4096)->seconds / offers.back().seconds, 1, 1e-9);
}

TEST(Tuner, PricesFollowTheNetwork) {
  Tuner far(network(100 * kMicro, 0)), busy(network(0, 100 * kMicro));
  const auto price = [](Tuner& tuner, std::string_view algorithm) {
    for (const Offer& offer : tuner.offers(demand(Kind::all_reduce, 16), 64))
      if (offer.algorithm->name == algorithm) return offer.seconds;
    return 0.0;
  };
  // One hop and many steps, or four hops and few steps.
  EXPECT_LT(price(far, "direct_one_shot"), price(far, "recursive_doubling"));
  EXPECT_GT(price(busy, "direct_one_shot"), price(busy, "recursive_doubling"));
}

TEST(Tuner, OffersOnlyWhatMayRun) {
  Tuner tuner(network(kMicro, kMicro));
  Demand d = demand(Kind::all_reduce, 4);
  const auto all = [&](auto holds) {
    for (const Offer& offer : tuner.offers(d, 1024))
      if (!holds(*offer.algorithm)) return false;
    return true;
  };
  EXPECT_TRUE(all([](const Algorithm& a) { return !a.windows; }));
  d.windows = true;
  EXPECT_FALSE(all([](const Algorithm& a) { return !a.windows; }));
  d.rank_order = true;
  EXPECT_TRUE(all([](const Algorithm& a) { return a.canonical; }));
  d = demand(Kind::reduce_scatter, 4);
  d.windows = true;
  const auto whole = [&](const Algorithm& a) { return !cuts_blocks(a, d.collective); };
  EXPECT_FALSE(all(whole));
  d.varying = true;
  EXPECT_TRUE(all(whole));
}

TEST(Tuner, SizesUpToAPowerOfTwoAreOne) {
  Tuner tuner(network(kMicro, kMicro));
  const Demand d = demand(Kind::all_reduce, 4);
  EXPECT_EQ(&tuner.offers(d, 1025), &tuner.offers(d, 2048));
  EXPECT_NE(&tuner.offers(d, 1024), &tuner.offers(d, 1025));
  Demand other = d;
  other.collective.kind = Kind::all_gather;
  EXPECT_NE(&tuner.offers(d, 64), &tuner.offers(other, 64));
  EXPECT_NE(&tuner.offers(d, 64), &tuner.offers(demand(Kind::all_reduce, 8), 64));
}

// Where signals are dear, lines save them; where steps are, many lines cost more than one.
TEST(Tuner, TakesLinesWhereTheyPay) {
  Network n = network(kMicro, kMicro);
  n.inside.signal_s = 10 * kMicro;
  Tuner tuner(n);
  Demand d = demand(Kind::all_reduce, 4);
  d.windows = true;
  const Offer* small = offer_of(tuner.offers(d, 64), "window_one_shot");
  ASSERT_TRUE(small);
  EXPECT_TRUE(small->ll);
  d.may_ll = false;
  EXPECT_FALSE(offer_of(tuner.offers(d, 64), "window_one_shot")->ll);
  Tuner busy(network(kMicro, 100 * kMicro));
  d.may_ll = true;
  EXPECT_FALSE(offer_of(busy.offers(d, 4096), "window_one_shot")->ll);
  EXPECT_TRUE(offer_of(busy.offers(d, 64), "window_one_shot")->ll);
  d.must_ll = true;
  EXPECT_TRUE(offer_of(busy.offers(d, 4096), "window_one_shot")->ll);
}

// A flat tree has the fewest hops.
TEST(Tuner, TakesTheRadixThatIsCheapest) {
  Tuner far(network(100 * kMicro, 0));
  Demand d = demand(Kind::gather, 16);
  const Offer* wide = offer_of(far.offers(d, 64), "knomial");
  ASSERT_TRUE(wide);
  EXPECT_GT(wide->radix, 2);
  d.radix = 3;
  EXPECT_EQ(offer_of(far.offers(d, 64), "knomial")->radix, 3);
}

// Rings and the like are cheap where their blocks are empty, but none of them is taken there.
TEST(Tuner, ChoosesParametersOfWhatDealsOutWhatThereIs) {
  Network n = network(0, 0);
  n.node_cores = 2;
  n.switch_s = 2 * kMicro;
  n.inside.send_s = 5 * kMicro;
  n.inside.recv_s = 7 * kMicro;
  Tuner tuner(n);
  const Offer* knomial = offer_of(tuner.offers(demand(Kind::all_reduce, 4), 8), "knomial");
  ASSERT_TRUE(knomial);
  EXPECT_EQ(knomial->radix, 4);
  EXPECT_FALSE(fills_pieces({find_algorithm("ring")}, {Kind::all_reduce, 4, 0, false}, 8));
  EXPECT_TRUE(fills_pieces({find_algorithm("ring")}, {Kind::all_reduce, 4, 0, false}, 256));
}

// A core's own cache forgets a line of its window before the rank writes it again.
TEST(Tuner, WindowsCycleThroughWhatACacheHolds) {
  for (const std::string_view name : {"window_one_shot", "window_two_shot"})
    for (const int ranks : {2, 3, 4, 8}) {
      const Algorithm& algorithm = *find_algorithm(name);
      const Collective c{Kind::all_reduce, ranks, 0, false};
      const Program program = algorithm.build(c, 0, {});
      const size_t cycle = usual_segment_bytes(algorithm, c, 1, 1 << 20, false) *
                           static_cast<size_t>(program.window_slots * program.window_halves);
      EXPECT_GE(cycle, size_t{512} << 10) << name << " of " << ranks;
      EXPECT_LE(cycle, size_t{2} << 20) << name << " of " << ranks;
    }
}

// Chunks that pass rank after rank are a small part of the message, but for ranks that share cores;
// all others fill slots.
TEST(Tuner, PassesOnSmallPartsOfAMessage) {
  constexpr size_t kKibi = 1024;
  const auto usual = [](const char* name, int ranks, size_t block, bool shares_cores,
                        size_t slot = 512 << 10) {
    const Collective c{Kind::broadcast, ranks, 0, false};
    return usual_segment_bytes(*find_algorithm(name), c, slot, block, shares_cores);
  };
  for (const char* name : {"ring", "knomial", "double_tree"}) {
    EXPECT_EQ(usual(name, 8, 64 * kKibi, false), 64 * kKibi) << name;
    EXPECT_EQ(usual(name, 8, 2048 * kKibi, false), 128 * kKibi) << name;
    EXPECT_EQ(usual(name, 8, 3000 * kKibi, false), 256 * kKibi) << name;
    EXPECT_EQ(usual(name, 8, 64 * 1024 * kKibi, false), 256 * kKibi) << name;
    EXPECT_EQ(usual(name, 8, 64 * kKibi, true), 256 * kKibi) << name;
    EXPECT_EQ(usual(name, 8, 64 * 1024 * kKibi, true, 64 * kKibi), 64 * kKibi) << name;
    EXPECT_EQ(usual(name, 2, 64 * kKibi, false), 512 * kKibi) << name;
  }
}

// Where steps cost much, long chunks are cheaper, as far as slots reach.
TEST(Tuner, TakesTheChunkThatIsCheapest) {
  Tuner busy(network(0, 1000 * kMicro));
  Demand d = demand(Kind::reduce, 8);
  const size_t usual = usual_segment_bytes(*find_algorithm("ring"), {Kind::reduce, 8, 0, false},
                                           64 << 10, 1 << 20, false);
  const auto segment = [&](Tuner& tuner) {
    return offer_of(tuner.offers(d, size_t{1} << 20), "ring")->segment_bytes;
  };
  EXPECT_EQ(segment(busy), usual);
  d.slot_bytes = 4 * usual;
  EXPECT_GT(segment(busy), usual);
  d.segment_bytes = 12345;
  EXPECT_EQ(segment(busy), 12345u);
}

// Rates say that short pieces move faster: those of links may, those of windows go round in as
// much.
TEST(Tuner, WindowsKeepTheirChunkWhereShortOnesSeemCheaper) {
  Network n = network(0, 0);
  n.inside.mapped = true;
  n.inside.rank_rates = n.inside.window_rates = {{16 << 10, 50e9}, {64 << 10, 5e9}};
  Tuner tuner(n);
  Demand d = demand(Kind::all_reduce, 2);
  d.windows = true;
  const std::vector<Offer>& offers = tuner.offers(d, size_t{1} << 20);
  const Offer* windows = offer_of(offers, "window_two_shot");
  ASSERT_TRUE(windows);
  EXPECT_EQ(windows->segment_bytes,
            usual_segment_bytes(*windows->algorithm, d.collective, d.slot_bytes, 1 << 20, false));
  EXPECT_TRUE(std::any_of(offers.begin(), offers.end(), [&](const Offer& o) {
    return !o.algorithm->windows && o.segment_bytes < d.slot_bytes;
  }));
}

TEST(Tuner, LeavesLanesThatWereAskedFor) {
  Tuner tuner(network(kMicro, kMicro));
  Demand d = demand(Kind::all_reduce, 4);
  d.windows = true;
  d.copies = 16;
  const auto& offers = tuner.offers(d, 1 << 20);
  EXPECT_EQ(offer_of(offers, "ring")->copies, 16);
  EXPECT_EQ(offer_of(offers, "window_two_shot")->copies, 8);  // as many as windows have cells for
}

// By communicators that share it, each in a thread of its own.
TEST(Tuner, IsAskedByManyThreads) {
  Tuner shared(network(kMicro, kMicro)), alone(network(kMicro, kMicro));
  Demand demand{.collective = {Kind::all_reduce, 4, 0, false}, .windows = true};
  demand.slot_bytes = 64 << 10;
  demand.slots = 8;
  const auto names = [&demand](Tuner& tuner) {
    std::vector<std::string_view> found;
    for (const size_t bytes : {8, 4096, 1 << 20})
      for (const Offer& offer : tuner.offers(demand, bytes)) found.push_back(offer.algorithm->name);
    return found;
  };
  const auto expected = names(alone);
  std::vector<std::vector<std::string_view>> found(4);
  {
    std::vector<std::jthread> threads;
    for (auto& mine : found) threads.emplace_back([&] { mine = names(shared); });
  }
  for (const auto& mine : found) EXPECT_EQ(mine, expected);
  EXPECT_EQ(&shared.offers(demand, 8), &shared.offers(demand, 7));
}

TEST(Tuner, TakesNoMoreOfWindowsThanThereIs) {
  Network n = network(kMicro, kMicro);
  n.node_cores = 512;
  Tuner tuner(n);
  Demand demand{.collective = {Kind::all_to_all, 64, 0, false}, .windows = true};
  demand.slot_bytes = 64 << 10;
  demand.slots = 8;
  demand.room.lines = 256;
  EXPECT_TRUE(offer_of(tuner.offers(demand, 64), "window_one_shot")->ll);
  demand.room.lines = 255;
  EXPECT_FALSE(offer_of(tuner.offers(demand, 64), "window_one_shot")->ll);
  demand.room.slots = 255;
  EXPECT_EQ(offer_of(tuner.offers(demand, 64), "window_one_shot"), nullptr);
  demand.room.slots = 256;
  demand.copies = 2;
  EXPECT_EQ(offer_of(tuner.offers(demand, 64), "window_one_shot"), nullptr);
}

}  // namespace
}  // namespace weft
