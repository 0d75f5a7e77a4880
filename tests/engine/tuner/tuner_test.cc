#include "engine/tuner/tuner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "engine/tuner/choose.h"
#include "engine/tuner/simulate.h"
#include "kernels/claim.h"
#include "tests/support/sanitized.h"

namespace weft {
namespace {

// Steps are free and messages dear, or the other way round.
Network network(double latency_s, double step_s) {
  Network n;
  n.name = "made up";
  n.step_s = step_s;
  n.inside.latency_s = latency_s;
  n.inside.rank_rates = {{1, 1e9}};
  return n;
}

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

const Offer* offer_of(const std::vector<Offer>& offers, std::string_view algorithm) {
  for (const Offer& offer : offers)
    if (offer.algorithm->name == algorithm) return &offer;
  return nullptr;
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
      const size_t cycle = usual_segment_bytes(algorithm, c, 1) *
                           static_cast<size_t>(program.window_slots * program.window_halves);
      EXPECT_GE(cycle, size_t{512} << 10) << name << " of " << ranks;
      EXPECT_LE(cycle, size_t{2} << 20) << name << " of " << ranks;
    }
}

// Where steps cost much, long chunks are cheaper, as far as slots reach.
TEST(Tuner, TakesTheChunkThatIsCheapest) {
  Tuner busy(network(0, 1000 * kMicro));
  Demand d = demand(Kind::reduce, 8);
  const size_t usual =
      usual_segment_bytes(*find_algorithm("ring"), {Kind::reduce, 8, 0, false}, 64 << 10);
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
            usual_segment_bytes(*windows->algorithm, d.collective, d.slot_bytes));
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

TEST(Tuner, IsAskedByChoose) {
  const float x = 0;
  float y = 0;
  Call call{.kind = Kind::all_reduce, .input = &x, .output = &y, .count = 1 << 20};
  call.type = DataType::float32;
  // Where latency is everything, the fewest hops win at every size; the table takes a ring here.
  Tuner tuner(network(1, 0));
  Surroundings around{.ranks = 8, .windows = false};
  EXPECT_EQ(choose(call, around, {})->algorithm->name, "ring");
  around.tuner = &tuner;
  around.slot_bytes = 64 << 10;
  around.slots = 8;
  const auto choice = choose(call, around, {});
  ASSERT_TRUE(choice.ok());
  EXPECT_EQ(choice->algorithm, offers(call, around, {})->front().algorithm);
  EXPECT_NE(choice->algorithm->name, "ring");
  Options asked;
  asked.algorithm = "ring";
  asked.chunk_bytes = 8 << 10;
  EXPECT_EQ(choose(call, around, asked)->segment_bytes, 8u << 10);
  EXPECT_EQ(choose(call, around, asked)->algorithm->name, "ring");
}

// The faster windows are, the less what the table takes costs beside the cheapest, or the more:
// whether it is taken up to `limit` times that.
void expect_left_up_to(double limit, Kind kind, size_t count, int cores) {
  float x[2] = {};
  Call call{.kind = kind, .input = x, .output = x + 1, .count = count};
  call.type = DataType::float32;
  Surroundings around{.ranks = 3, .windows = true};
  around.slot_bytes = 64 << 10;
  around.slots = 8;
  bool dear = false, about_the_same = false;
  for (double rate = 0.1e9; rate < 2e10; rate *= 1.04) {
    Network n = network(kMicro, kMicro);
    n.node_cores = cores;
    n.inside.window_rates = {{1, rate}};
    Tuner tuner(n);
    around.tuner = &tuner;
    const std::vector<Offer>& all = *offers(call, around, {});
    const double more = offer_of(all, "window_one_shot")->seconds / all[0].seconds;
    const bool taken = choose(call, around, {})->algorithm->name == "window_one_shot";
    EXPECT_EQ(taken, more <= limit) << more << ' ' << all[0].algorithm->name;
    dear |= more > limit && more < 1.5;
    about_the_same |= more > limit / 1.2 && more < limit;
  }
  EXPECT_TRUE((dear || limit == 1.5) && about_the_same) << cores << " cores, " << count;
}

TEST(Tuner, LeavesWhatCostsAboutTheSame) {
  for (const size_t count : {1 << 20, 1 << 12}) expect_left_up_to(1.2, Kind::all_gather, count, 0);
  for (const int a_core_each : {3, 8}) expect_left_up_to(1.2, Kind::all_reduce, 2048, a_core_each);
}

// There a further hop takes a turn of every rank.
TEST(Tuner, LeavesMoreWhereShortCallsShareCores) {
  expect_left_up_to(1.5, Kind::all_reduce, 2048, 2);
  expect_left_up_to(1.5, Kind::all_gather, 4096, 2);
  expect_left_up_to(1.2, Kind::all_gather, 4097, 2);
}

// Messages without elements cost nothing, so that a ring of 16 ranks is the cheapest for few
// elements.
TEST(Tuner, LeavesWhatDealsOutLessThanThereIs) {
  const float x = 0;
  float y = 0;
  Network n = network(kMicro, 0);
  n.inside.send_s = n.inside.recv_s = 20 * kMicro;
  n.node_cores = 1;
  Tuner tuner(n);
  Surroundings around{.ranks = 16, .windows = false};
  around.tuner = &tuner;
  around.slot_bytes = 64 << 10;
  around.slots = 8;
  for (const size_t count : {1, 2, 16}) {
    const Call call{.kind = Kind::all_reduce,
                    .input = &x,
                    .output = &y,
                    .count = count,
                    .type = DataType::float32};
    const Algorithm& cheapest = *offers(call, around, {})->front().algorithm;
    const Algorithm& chosen = *choose(call, around, {})->algorithm;
    const Collective c{Kind::all_reduce, 16, 0, false};
    EXPECT_EQ(cheapest.build(c, 0, {}).pieces, 16) << cheapest.name;
    EXPECT_EQ(chosen.build(c, 0, {}).pieces, 1) << chosen.name;
  }
}

// Few ranks exchange with all others at once, also where that seems dearer; what is reduced and
// gathered only as long as caches hold it.
TEST(Tuner, LeavesDirectExchangesOfAFew) {
  const float x = 0;
  float y = 0;
  Call call{.kind = Kind::all_reduce, .input = &x, .output = &y, .count = 1 << 18};
  call.type = DataType::float32;
  for (const int ranks : {2, 3, 4, 5}) {
    Surroundings around{.ranks = ranks, .windows = false};
    const bool few = ranks == 3 || ranks == 4;
    EXPECT_EQ(choose(call, around, {})->algorithm->name, few ? "direct_two_shot" : "ring");
    ++call.count;
    EXPECT_EQ(choose(call, around, {})->algorithm->name, "ring");
    call.kind = Kind::all_gather;
    EXPECT_EQ(choose(call, around, {})->algorithm->name, few ? "direct_one_shot" : "ring");
    call.kind = Kind::all_reduce;
    --call.count;
  }
}

Choice choice_of(Kind kind, size_t count, const Surroundings& around, const Options& options = {}) {
  const float x = 0;
  float y = 0;
  Call call{.kind = kind, .input = &x, .output = &y, .count = count};
  call.type = DataType::float32;
  const auto choice = choose(call, around, options);
  EXPECT_TRUE(choice.ok()) << choice.status().to_string();
  return choice.ok() ? *choice : Choice{};
}
std::string_view chosen(Kind kind, size_t count, const Surroundings& around,
                        const Options& options = {}) {
  const Choice choice = choice_of(kind, count, around, options);
  return choice.algorithm ? choice.algorithm->name : "";
}

// In place its root has no copy of its own to make, and the tuner tells the two apart.
TEST(Choose, PricesABroadcastInPlaceAsSuch) {
  Network n = network(kMicro, kMicro);
  n.memory = n.inside.window_rates = {{1, 1e9}};
  Tuner tuner(n);
  Surroundings around{.ranks = 2, .windows = true, .tuner = &tuner};
  around.slot_bytes = 64 << 10;
  around.slots = 8;
  std::byte memory{};
  const Call call{.kind = Kind::broadcast, .input = &memory, .output = &memory, .count = 1 << 20};
  const auto windows = [&] {
    return offer_of(*offers(call, around, {}), "window_one_shot")->seconds;
  };
  const double apart = windows();
  around.in_place = true;
  EXPECT_LT(windows(), 0.8 * apart);
  around.in_place = false;
  EXPECT_EQ(windows(), apart);
}

constexpr size_t kLittle = 2, kMuch = 1 << 20;  // elements

// A step folds 64 operands; what only moves needs no more than room in windows.
TEST(Choose, UsesWindowsOnMoreRanksThanFold) {
  const Surroundings around{.ranks = 512, .windows = true, .room = {.slots = 16'384, .lines = 256}};
  for (const Kind kind : {Kind::all_gather, Kind::broadcast})
    EXPECT_EQ(chosen(kind, kMuch, around), "window_one_shot");
  EXPECT_EQ(chosen(Kind::all_to_all, kMuch, around), "window_round_trip");
  // A connection with every other rank has to pay.
  for (const Kind kind : {Kind::all_gather, Kind::all_to_all})
    EXPECT_EQ(chosen(kind, kLittle, around), "bruck");
  EXPECT_EQ(chosen(Kind::broadcast, kLittle, around), "knomial");
  for (const size_t count : {kLittle, kMuch}) {
    EXPECT_EQ(chosen(Kind::scatter, count, around), "direct_one_shot");
    EXPECT_EQ(chosen(Kind::gather, count, around), "direct_one_shot");
  }
  Surroundings narrow = around;
  narrow.room.slots = 510;  // less than a slot for each receiver
  EXPECT_EQ(chosen(Kind::all_to_all, kMuch, narrow), "pairwise");
  EXPECT_EQ(chosen(Kind::all_gather, kMuch, narrow), "window_one_shot");
}

// What is claimed before is written as fast as what is handed back, and one hop less is left.
TEST(Choose, FoldsAllAsLongAsItIsClaimedBefore) {
  Surroundings around{.windows = true};
  const auto by_table = [&](int ranks, size_t bytes) {
    around.ranks = ranks;
    return chosen(Kind::all_reduce, bytes / sizeof(float), around);
  };
  EXPECT_EQ(by_table(2, kClaimedNextMost), "window_one_shot");
  EXPECT_EQ(by_table(2, kClaimedNextMost + 4), "window_round_trip");
  for (const int ranks : {3, 4, 5, 8}) {
    EXPECT_EQ(by_table(ranks, 8 << 10), "window_one_shot");
    EXPECT_EQ(by_table(ranks, (8 << 10) + 4), ranks <= 4 ? "window_round_trip" : "window_two_shot");
  }
  around.device = true;  // claims nothing
  EXPECT_EQ(by_table(2, 8 << 10), "window_one_shot");
  EXPECT_EQ(by_table(2, (8 << 10) + 4), "window_two_shot");
}

// A slot for each receiver, four halves where they always go the same way, and as many lanes as are
// asked for.
TEST(Choose, TakesNoMoreOfWindowsThanThereIs) {
  Surroundings around{.ranks = 64, .windows = true, .room = {.slots = 1024, .lines = 256}};
  Options options, asked;
  EXPECT_TRUE(choice_of(Kind::all_to_all, kLittle, around).ll);
  options.lanes = 2;
  EXPECT_FALSE(choice_of(Kind::all_to_all, kLittle, around, options).ll);
  EXPECT_EQ(chosen(Kind::all_to_all, kLittle, around, options), "window_one_shot");
  options.lanes = 5;
  EXPECT_EQ(chosen(Kind::all_to_all, kMuch, around, options), "window_round_trip");
  EXPECT_EQ(chosen(Kind::all_to_all, kLittle, around, options), "bruck");
  asked.protocol = "ll";
  EXPECT_EQ(chosen(Kind::all_to_all, kMuch, around, asked), "window_one_shot");
  asked.lanes = 2;
  EXPECT_EQ(chosen(Kind::all_to_all, kMuch, around, asked), "pairwise");
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

// Over links, a logarithm of steps where a ring's would be what takes the time.
TEST(Choose, TakesFewStepsOnManyRanks) {
  const Surroundings some{.ranks = 9, .windows = false}, many{.ranks = 96, .windows = false};
  for (const Surroundings& around : {some, many}) {
    EXPECT_EQ(chosen(Kind::all_gather, 256, around), "bruck");
    EXPECT_EQ(chosen(Kind::all_gather, 1 << 20, around), "ring");
    EXPECT_EQ(chosen(Kind::reduce_scatter, 256, around), "halving_doubling");
    EXPECT_EQ(chosen(Kind::reduce_scatter, 1 << 20, around), "ring");
    EXPECT_EQ(chosen(Kind::all_to_all, 256, around), "bruck");
    EXPECT_EQ(chosen(Kind::all_to_all, 1 << 20, around), "pairwise");
  }
  // Links that cannot carry a message of many blocks.
  Surroundings narrow = many;
  narrow.slot_bytes = 64;
  narrow.slots = 2;
  EXPECT_EQ(chosen(Kind::all_gather, 1, narrow), "ring");
  EXPECT_EQ(chosen(Kind::reduce_scatter, 1, narrow), "ring");
  EXPECT_EQ(chosen(Kind::all_to_all, 1, narrow), "pairwise");
  EXPECT_EQ(chosen(Kind::all_reduce, 1 << 20, some), "ring");
  EXPECT_EQ(chosen(Kind::all_reduce, 1 << 20, many), "double_tree");
}

TEST(Choose, TakesAWishWhereItServes) {
  const float x = 0;
  float y[8] = {};
  Call call{.kind = Kind::all_reduce, .input = &x, .output = y, .count = 1};
  call.type = DataType::float32;
  const Surroundings around{.ranks = 8, .windows = false};
  Options options;
  options.algorithm = "double_tree,auto";
  EXPECT_EQ(choose(call, around, options)->algorithm->name, "double_tree");
  call.kind = Kind::all_gather;
  EXPECT_EQ(choose(call, around, options)->algorithm, choose(call, around, {})->algorithm);
  options.algorithm = "double_tree";
  EXPECT_EQ(choose(call, around, options).status().code(), Code::unsupported);
  options.algorithm = "no_such,auto";
  EXPECT_EQ(choose(call, around, options).status().code(), Code::invalid_argument);
}

}  // namespace
}  // namespace weft
