#include "bench/alike.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace weft::bench {
namespace {

using Runs = std::vector<std::vector<Hops>>;

Hops still(double us) { return {us, us}; }

// The runs that are alike: a 1 each, else a 0; libraries side by side.
std::string found(const Runs& runs) {
  const std::optional<Distance> distance = alike(runs);
  std::string text;
  for (const std::vector<Hops>& of_one : runs) {
    if (&of_one != &runs.front()) text += ' ';
    for (const Hops& run : of_one) text += distance && distance->holds(run) ? '1' : '0';
  }
  return text;
}

TEST(Alike, AllRunsAreWhereTheCoresStay) {
  EXPECT_EQ(found({{still(0.05), still(0.06)}, {{0.07, 0.055}, still(0.05)}}), "11 11");
}

TEST(Alike, NothingMeasuredIsAlike) { EXPECT_EQ(found({{Hops(), Hops()}, {Hops()}}), "11 1"); }

TEST(Alike, ThoseAreThatTheOtherLibraryHas) {
  // Most of the first one's are near, but the second one has but one of these.
  const Runs runs{{still(0.05), still(0.05), still(0.05), still(0.25), still(0.25)},
                  {still(0.05), still(0.25), still(0.26), still(0.24), still(0.25)}};
  EXPECT_EQ(found(runs), "00011 01111");
}

TEST(Alike, TheNearerWhereThereAreAsManyOfBoth) {
  EXPECT_EQ(found({{still(0.25), still(0.05)}, {still(0.05), still(0.25)}}), "01 10");
  EXPECT_EQ(found({{still(0.05), still(0.25)}, {still(0.25), still(0.05)}}), "10 01");
}

TEST(Alike, ARunThatTheCoresMovedInIsNot) {
  EXPECT_EQ(found({{still(0.05), {0.05, 0.25}, {0.25, 0.05}}, {still(0.055), still(0.05)}}),
            "100 11");
}

// A run between two distances belongs to one of them.
TEST(Alike, NoTwoRunsDifferByMore) {
  EXPECT_EQ(
      found({{still(0.063), still(0.063), still(0.1)}, {still(0.158), still(0.158), still(0.1)}}),
      "111 001");
  EXPECT_EQ(found({{{0.063, 0.158}}, {{0.063, 0.158}}}), "0 0");
}

TEST(Alike, NoneAreWhereTheCoresNeverWere) {
  EXPECT_FALSE(alike({{still(0.05)}, {still(0.25)}}));
  EXPECT_FALSE(alike({{still(0.05)}, {{0.05, 0.25}}}));
}

TEST(Alike, WhoHasNoRunsIsLeftOut) {
  EXPECT_EQ(found({{still(0.05)}, {}, {still(0.05), still(0.25)}}), "1  10");
  EXPECT_FALSE(alike({{}, {}}));
}

}  // namespace
}  // namespace weft::bench
