#include "engine/tuner/choose.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <vector>

#include "kernels/claim.h"
#include "tests/engine/tuner/offers.h"
#include "tests/support/contains.h"
#include "tests/support/sanitized.h"

namespace weft {
namespace {

TEST(Choose, AsksTheTuner) {
  const float x = 0;
  float y = 0;
  Call call{.kind = Kind::all_reduce, .input = &x, .output = &y, .count = 1 << 20};
  call.type = DataType::float32;
  // Where latency is everything, the fewest hops win at every size; the table takes rings here.
  Tuner tuner(network(1, 0));
  Surroundings around{.ranks = 8, .windows = false};
  EXPECT_EQ(choose(call, around, {})->algorithm->name, "bidirectional_ring");
  around.tuner = &tuner;
  around.slot_bytes = 64 << 10;
  around.slots = 8;
  const auto choice = choose(call, around, {});
  ASSERT_TRUE(choice.ok());
  EXPECT_EQ(choice->algorithm, offers(call, around, {})->front().algorithm);
  EXPECT_NE(choice->algorithm->name, "bidirectional_ring");
  Options asked;
  asked.algorithm = "ring";
  asked.chunk_bytes = 8 << 10;
  EXPECT_EQ(choose(call, around, asked)->segment_bytes, 8u << 10);
  EXPECT_EQ(choose(call, around, asked)->algorithm->name, "ring");
}

// Of floats; what is there is not looked at.
Call out_of_place(Kind kind, size_t count) {
  static float memory[2] = {};
  Call call{.kind = kind, .input = memory, .output = memory + 1, .count = count};
  call.type = DataType::float32;
  return call;
}

// Of one host, with the usual links.
Surroundings three_ranks() {
  Surroundings around{.ranks = 3, .windows = true};
  around.slot_bytes = 64 << 10;
  around.slots = 8;
  return around;
}

// The faster windows are, the less what the table takes costs beside the cheapest, or the more:
// whether it is taken up to `limit` times that.
void expect_left_up_to(double limit, Kind kind, size_t count, int cores,
                       std::string_view by_table = "window_one_shot", double links_rate = 1e9) {
  const Call call = out_of_place(kind, count);
  Surroundings around = three_ranks();
  bool dear = false, about_the_same = false;
  for (double rate = 0.1e9; rate < 2e10; rate *= test::kSanitized ? 1.15 : 1.08) {
    Network n = network(kMicro, kMicro);
    n.node_cores = cores;
    n.inside.rank_rates = {{1, links_rate}};
    n.inside.window_rates = {{1, rate}};
    Tuner tuner(n);
    around.tuner = &tuner;
    const std::vector<Offer>& all = *offers(call, around, {});
    const double more = offer_of(all, by_table)->seconds / all[0].seconds;
    const bool taken = choose(call, around, {})->algorithm->name == by_table;
    EXPECT_EQ(taken, more <= limit) << more << ' ' << all[0].algorithm->name;
    dear |= more > limit && more < 1.25 * limit;
    about_the_same |= more > limit / 1.2 && more < limit;
  }
  EXPECT_TRUE(dear && about_the_same) << cores << " cores, " << count;
}

TEST(Choose, LeavesWhatCostsAboutTheSame) {
  for (const size_t count : {1 << 20, 1 << 12}) expect_left_up_to(1.2, Kind::all_gather, count, 0);
  for (const int a_core_each : {3, 8}) expect_left_up_to(1.2, Kind::all_reduce, 2048, a_core_each);
}

// A machine may have been measured while its cores were far from each other.
TEST(Choose, LeavesMoreBesideLinksWhereBlocksAreShort) {
  for (const int cores : {0, 2, 3}) {
    expect_left_up_to(3, Kind::broadcast, 1024, cores);
    expect_left_up_to(cores == 2 ? 2 : 1.2, Kind::broadcast, 1025, cores);
  }
  expect_left_up_to(1.2, Kind::all_gather, 1024, 0);
}

// Prices of links say less there.
TEST(Choose, LeavesMoreBesideLinksWhereRanksShareCores) {
  expect_left_up_to(2, Kind::all_gather, 2048, 2);
  expect_left_up_to(2, Kind::reduce, 1 << 18, 2);
  expect_left_up_to(1.2, Kind::reduce, 1 << 18, 3);
}

// But a ring's, where every core has two ranks: one of its blocks crosses between cores.
TEST(Choose, ReducesAroundARingWhereEveryCoreHasTwoRanks) {
  expect_left_up_to(1.3, Kind::reduce, 1 << 18, 1, "ring");
  expect_left_up_to(2, Kind::reduce, 1 << 14, 1);
  const auto ran = [](int cores, const Options& options) {
    Network n = network(kMicro, kMicro);
    n.node_cores = cores;
    Tuner tuner(n);
    Surroundings around = three_ranks();
    around.tuner = &tuner;
    return choose(out_of_place(Kind::reduce, 1 << 18), around, options)->algorithm->name;
  };
  EXPECT_EQ(ran(1, {}), "ring");
  EXPECT_NE(ran(2, {}), "ring") << "one core has but one";
  Options in_rank_order;
  in_rank_order.deterministic = true;
  EXPECT_EQ(ran(1, in_rank_order), ran(2, in_rank_order));
}

// There a further hop takes a turn of every rank.
TEST(Choose, LeavesMoreWhereShortCallsShareCores) {
  expect_left_up_to(1.5, Kind::all_reduce, 2048, 2, "window_one_shot", 1e7);
  expect_left_up_to(1.5, Kind::reduce_scatter, 4096, 2, "window_one_shot", 1e7);
  expect_left_up_to(1.2, Kind::reduce_scatter, 4097, 2, "window_one_shot", 1e7);
}

// There the cheapest, with links as slow as that, is one shot.
TEST(Choose, LeavesNoMoreWhereTheTablesHasTheMoreHops) {
  expect_left_up_to(1.2, Kind::all_reduce, 3072, 2, "window_round_trip", 1e7);
}

// Messages without elements cost nothing, so that a ring of 16 ranks is the cheapest for few
// elements.
TEST(Choose, LeavesWhatDealsOutLessThanThereIs) {
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

// The faster the kernel copies, the less what it copies costs beside the cheapest of all else, or
// the more what the table takes costs beside that: up to where it is left.
void expect_pulled(bool claims, int cores, double from, double up_to) {
  const Call call = out_of_place(Kind::all_to_all, 1 << 18);
  Surroundings around = three_ranks();
  around.readable = true;
  int pulled = 0, not_pulled = 0;
  for (double rate = 1e8; rate < 1e11; rate *= test::kSanitized ? 1.15 : 1.05) {
    Network n = network(kMicro, 0);
    n.node_cores = cores;
    n.inside.claims = claims;
    n.inside.rank_rates = {{1, 1e8}};
    n.inside.window_rates = {{1, 1e10}};
    n.inside.read_rates = {{1, rate}};
    Tuner tuner(n);
    around.tuner = &tuner;
    const std::vector<Offer>& all = *offers(call, around, {});
    const double pull = offer_of(all, "pull")->seconds,
                 table = offer_of(all, "window_round_trip")->seconds;
    const bool expected = from > 0 ? pull <= from * all[0].seconds : table > up_to * pull;
    const bool taken = choose(call, around, {})->algorithm->readable;
    EXPECT_EQ(taken, expected) << pull << ' ' << table << ' ' << all[0].algorithm->name;
    (taken ? pulled : not_pulled) += 1;
  }
  EXPECT_TRUE(pulled > 10 && not_pulled > 10) << pulled << ' ' << not_pulled;
}

TEST(Choose, ReadsWhereThatCostsALittleMore) {
  expect_pulled(false, 0, 1.15, 0);
  expect_pulled(true, 2, 1.15, 0);
}

TEST(Choose, LeavesReadingWhereItsPriceIsNotExact) { expect_pulled(false, 2, 0, 1.5); }

// A link that is cheap, but not by enough, is no reason to leave what is cheaper by enough.
TEST(Choose, WeighsEachOfferByItself) {
  const Call call = out_of_place(Kind::all_to_all, 1 << 18);
  Surroundings around = three_ranks();
  around.readable = true;
  std::map<std::string_view, int> taken;
  for (double read = 1e9; read < 3e10; read *= test::kSanitized ? 2 : 1.1)
    for (double links = 1e9; links < 3e10; links *= test::kSanitized ? 3 : 1.5) {
      Network n = network(kMicro, 0);
      n.node_cores = 2;
      n.inside.rank_rates = {{1, links}};
      n.inside.window_rates = {{1, 2e9}};
      n.inside.read_rates = {{1, read}};
      Tuner tuner(n);
      around.tuner = &tuner;
      std::string_view best;
      double least = 1e9;
      for (const Offer& offer : *offers(call, around, {})) {
        const Algorithm& a = *offer.algorithm;
        const bool table = a.name == "window_round_trip";
        const double weight = table ? 1 : !a.windows ? 2 : a.readable ? 1.5 : 1.2;
        if (weight * offer.seconds < least) best = a.name, least = weight * offer.seconds;
      }
      ++taken[choose(call, around, {})->algorithm->name];
      EXPECT_EQ(choose(call, around, {})->algorithm->name, best) << read << ' ' << links;
    }
  EXPECT_GE(taken.size(), 3u) << "the table's, pull, and links";
}

// Where all is about as dear, the table decides; and there it is known what is claimed.
TEST(Choose, HandsSlotsBackEarlierOnTwoRanksThatClaimNothing) {
  const auto chosen_by = [](bool claims, int ranks, Kind kind, size_t bytes, int cores = 0) {
    Network n = network(kMicro, 0);
    n.memory = n.inside.window_rates = {{1, 1e10}};
    n.inside.claims = claims;
    n.node_cores = cores;
    Tuner tuner(n);
    Surroundings around{.ranks = ranks, .windows = true};
    around.tuner = &tuner;
    return chosen(kind, bytes / sizeof(float), around);
  };
  constexpr size_t kEdge = 8 << 10;
  for (const Kind kind :
       {Kind::all_reduce, Kind::all_gather, Kind::reduce_scatter, Kind::all_to_all}) {
    EXPECT_EQ(chosen_by(false, 2, kind, kEdge), "window_one_shot") << name(kind);
    EXPECT_EQ(chosen_by(false, 2, kind, kEdge + 4), "window_round_trip") << name(kind);
    EXPECT_EQ(chosen_by(true, 2, kind, kEdge + 4), "window_one_shot") << name(kind);
    EXPECT_EQ(chosen_by(false, 2, kind, kEdge + 4, 1), "window_one_shot") << name(kind);
  }
  EXPECT_EQ(chosen_by(false, 3, Kind::all_to_all, kEdge + 4), "window_one_shot");
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

// Over links, few ranks exchange with all others at once, also where that seems dearer; what is
// reduced and gathered only as long as caches hold it.
TEST(Choose, LeavesDirectExchangesOfAFew) {
  constexpr size_t kMebi = 1 << 18;  // of floats
  for (const int ranks : {2, 3, 4, 5}) {
    const Surroundings around{.ranks = ranks, .windows = false};
    const size_t most = ranks == 2 ? 2 * kMebi : kMebi;
    const bool few = ranks == 3 || ranks == 4;
    const char* const longer = ranks == 2 ? "ring" : "bidirectional_ring";
    EXPECT_EQ(chosen(Kind::all_reduce, most, around), ranks < 5 ? "direct_two_shot" : longer);
    EXPECT_EQ(chosen(Kind::all_reduce, most + 1, around), longer);
    EXPECT_EQ(chosen(Kind::all_gather, most + 1, around), few ? "direct_one_shot" : "ring");
  }
}

// What is under way both ways round counts twice in prices, where it takes no more room.
TEST(Choose, GoesBothWaysAlsoWhereThatSeemsDearer) {
  const Call call = out_of_place(Kind::all_reduce, (4 << 20) / sizeof(float));
  Surroundings around{.ranks = 8, .windows = false, .slot_bytes = 512 << 10, .slots = 4};
  Options options;
  options.chunk_bytes = 512 << 10;
  options.lanes = 1;
  bool dear = false, about_the_same = false;
  for (double rate = 2e9; rate > 0.1e9; rate /= 1.1) {
    Network n = network(kMicro, kMicro);
    n.inside.rank_rates = {{1, 1e9}};
    // 2 MiB are under way in a ring, 4 both ways, beside 8 of input and output.
    constexpr double kMebi = 1 << 20;
    n.memory = {{2.5 * kMebi, 20e9},
                {4 * kMebi, rate},
                {8 * kMebi, 20e9},
                {12.5 * kMebi, 20e9},
                {13 * kMebi, 0.1e9}};
    Tuner tuner(n);
    around.tuner = &tuner;
    const auto& all = *offers(call, around, options);
    const double more =
        offer_of(all, "bidirectional_ring")->seconds / offer_of(all, "ring")->seconds;
    const auto taken = choose(call, around, options)->algorithm->name;
    EXPECT_EQ(taken == "ring", more > 1.3) << more << ' ' << taken;
    dear |= more > 1.3 && more < 1.6;
    about_the_same |= more > 1.1 && more < 1.3;
  }
  EXPECT_TRUE(dear && about_the_same);
}

// Asked for by name, and priced: what passes rank after rank is cut by the message's length, and
// where ranks share cores in 256 KiB.
TEST(Choose, CutsWhatIsPassedOn) {
  constexpr size_t kCount = (2 << 20) / sizeof(float);
  Surroundings around{.ranks = 8, .windows = false, .slot_bytes = 512 << 10, .slots = 4};
  Options asked;
  asked.algorithm = "ring";
  EXPECT_EQ(choice_of(Kind::broadcast, kCount, around, asked).segment_bytes, 128u << 10);
  for (const int cores : {0, 2}) {
    Network n = network(0, 0);
    n.node_cores = cores;
    n.inside.rank_rates = {{1, 1e9}};
    Tuner tuner(n);
    around.tuner = &tuner;
    const size_t segment = (cores > 0 ? 256u : 128u) << 10;
    EXPECT_EQ(choice_of(Kind::broadcast, kCount, around, asked).segment_bytes, segment);
    const auto& all = *offers(out_of_place(Kind::broadcast, kCount), around, {});
    EXPECT_TRUE(std::any_of(all.begin(), all.end(), [&](const Offer& o) {
      return o.algorithm->name == "knomial" && o.segment_bytes == segment;
    })) << cores;
  }
}

// Over links, on a few ranks; what is not reduced for all, up to 2 MiB of a message. Not on GPUs.
TEST(Choose, GoesBothWaysRoundARing) {
  constexpr size_t kMost = size_t{2 << 20} / sizeof(float);
  for (const int ranks : {5, 8, 9}) {
    const Surroundings around{.ranks = ranks, .windows = false};
    const char* const shorter = ranks > 8 ? "ring" : "bidirectional_ring";
    EXPECT_EQ(chosen(Kind::all_reduce, kMost, around), shorter) << ranks;
    EXPECT_EQ(chosen(Kind::all_reduce, 8 * kMost, around), shorter) << ranks;
    for (const Kind kind : {Kind::all_gather, Kind::reduce_scatter}) {
      EXPECT_EQ(chosen(kind, kMost / ranks, around), shorter) << ranks;
      EXPECT_EQ(chosen(kind, kMost / ranks + 1, around), "ring") << ranks;
    }
  }
  const Surroundings device{.ranks = 8, .windows = false, .device = true};
  EXPECT_EQ(chosen(Kind::all_reduce, kMost, device), "ring");
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
  options.algorithm = "mine.json,auto";  // which was not read, as on devices
  EXPECT_EQ(choose(call, around, options)->algorithm, choose(call, around, {})->algorithm);
}

TEST(Choose, OffersWhatWouldServe) {
  const float x = 0;
  float y = 0;
  Call call{.kind = Kind::all_reduce, .input = &x, .output = &y, .count = 1};
  call.type = DataType::float32;
  Options options;
  options.algorithm = "ring";
  options.deterministic = true;
  const Status refused = choose(call, {.ranks = 4, .windows = false}, options).status();
  EXPECT_TRUE(test::contains(refused, "does not fold in rank order")) << refused.to_string();
  EXPECT_TRUE(test::contains(refused, "there are direct_one_shot")) << refused.to_string();
  EXPECT_FALSE(test::contains(refused, "knomial")) << refused.to_string();
}

}  // namespace
}  // namespace weft
