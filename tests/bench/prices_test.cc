#include "bench/prices.h"

#include <gtest/gtest.h>

#include "base/text.h"

namespace weft::bench {
namespace {

PricePoint point() {
  return {64, {{"ring", 10, 11}, {"knomial r4", 12, 20}, {"bruck", 14, 10.5}}, 0.5, true};
}

TEST(Prices, AreOffEitherWay) {
  EXPECT_DOUBLE_EQ((PricedWay{"", 10, 14}).factor(), 1.4);
  EXPECT_DOUBLE_EQ((PricedWay{"", 14, 10}).factor(), 1.4);
  EXPECT_GT((PricedWay{"", 0, 10}).factor(), 1e6);
}

TEST(Prices, AChoiceLosesAgainstTheFastest) {
  EXPECT_NEAR(point().regret(), 11 / 10.5, 1e-12);
  PricePoint best = point();
  best.ways[0].measured_us = 1;
  EXPECT_EQ(best.regret(), 1);
}

TEST(Prices, AreCounted) {
  PriceTally tally;
  tally.add(point());
  EXPECT_EQ(tally.prices, 3);
  EXPECT_EQ(tally.prices_good, 2);
  EXPECT_EQ(tally.choices_good, 1);
  PricePoint bad = point();
  bad.ways[0].measured_us = 12;
  tally.add(bad);
  EXPECT_EQ(tally.choices, 2);
  EXPECT_EQ(tally.choices_good, 1);
  PriceTally all;
  all.add(tally);
  all.add(tally);
  EXPECT_EQ(
      tally_text(all),
      "prices within 1.4: 8 of 12, by their median 6; choices within 10 % of the best: 2 of 4");
}

// Of one that would run otherwise by then there is no second price.
TEST(Prices, AreMeansOfTwoByTheirNames) {
  std::vector<PricedWay> ways{{"ring", 10, 11}, {"knomial r4", 12, 20}};
  take_means(ways, {{"knomial", 1, 0}, {"ring", 20, 0}, {"bruck", 5, 0}});
  EXPECT_EQ(ways[0].price_us, 15);
  EXPECT_EQ(ways[1].price_us, 12);
  EXPECT_EQ(ways[0].measured_us, 11);
}

// A machine that was three times slower is slower for all.
TEST(Prices, AreCountedByTheirMedian) {
  PricePoint slow = point();
  for (PricedWay& way : slow.ways) way.measured_us *= 3;
  EXPECT_NEAR(slow.median(), 3.3, 1e-12);
  PriceTally tally;
  tally.add(slow);
  EXPECT_EQ(tally.prices_good, 0);
  EXPECT_EQ(tally.prices_good_by_median, 1);
  EXPECT_EQ((PricePoint{8, {{"", 0, 1}}}).median(), 1);
}

TEST(Prices, AreMediansOfSteadyRounds) {
  std::vector<PricedRound> rounds{
      {64, {{"ring", 10, 30}, {"bruck", 20, 8}}, 1, true},
      {64, {{"window/ll", 1, 1}, {"ring", 99, 99}, {"bruck", 99, 99}}, 9, false},
      {64, {{"bruck r4 x2", 24, 12}, {"ring 16K", 14, 35}}, 3, true},
      {64, {{"bruck", 20, 14}, {"ring", 12, 20}}, 2, true}};
  const PricePoint point = point_of(rounds);
  EXPECT_EQ(point.bytes, 64u);
  EXPECT_TRUE(point.steady);
  EXPECT_EQ(point.message_us, 2);
  ASSERT_EQ(point.ways.size(), 2u);
  EXPECT_EQ(point.ways[0].name, "bruck");  // chosen twice
  EXPECT_EQ(point.ways[0].measured_us, 12);
  EXPECT_EQ(point.ways[0].price_us, 24);  // half of it was measured, in the median round
  EXPECT_EQ(point.ways[1].name, "ring");
  EXPECT_EQ(point.ways[1].measured_us, 30);
  EXPECT_EQ(point.ways[1].price_us, 12);
  for (PricedRound& each : rounds) each.steady = false;
  const PricePoint moved = point_of(rounds);
  EXPECT_FALSE(moved.steady);
  EXPECT_EQ(moved.ways.size(), 3u);
}

TEST(Prices, ComeBackAsTheyWent) {
  const PricedRound round{64, point().ways, 0.5, true};
  const Result<PricedRound> back = priced_round_from_json(to_json(round).dump());
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(to_json(*back), to_json(round));
  for (const char* text :
       {"", "{}", "3", R"({"bytes": 8, "ways": []})", R"({"bytes": "x"})",
        R"({"bytes": 8, "ways": [{"name": "a", "price_us": 1, "measured_us": 1}]})"})
    EXPECT_FALSE(priced_round_from_json(text).ok()) << text;
  for (const char* bytes : {"8.5", "1e300", "-8"})
    EXPECT_FALSE(priced_round_from_json(concat(R"({"bytes": )", bytes,
                                               R"(, "message_us": 1, "steady": true, "ways": [
                 {"name": "a", "price_us": 1, "measured_us": 1}]})"))
                     .ok())
        << bytes;
  std::string deep = to_json(round).dump();
  deep.insert(1, "\"more\":" + std::string(100, '[') + std::string(100, ']') + ",");
  EXPECT_NE(priced_round_from_json(deep).status().message().find("more than 64 deep"),
            std::string::npos);
}

TEST(Prices, AreShownWithWhatIsOff) {
  const std::string text = point_text(point());
  EXPECT_NE(text.find("ring"), std::string::npos);
  EXPECT_NE(text.find("(1.10)  "), std::string::npos) << text;
  EXPECT_NE(text.find("(1.67)!"), std::string::npos) << text;
  EXPECT_NE(text.find("+  5 %"), std::string::npos) << text;
  EXPECT_EQ(text[0], ' ');
  PricePoint moved = point();
  moved.steady = false;
  EXPECT_EQ(point_text(moved)[0], '~');
}

}  // namespace
}  // namespace weft::bench
