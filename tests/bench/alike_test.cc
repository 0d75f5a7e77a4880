#include "bench/alike.h"

#include <gtest/gtest.h>

#include <vector>

namespace weft::bench {
namespace {

using Runs = std::vector<std::vector<Hops>>;
using Found = std::vector<std::vector<bool>>;

Hops still(double us) { return {us, us}; }

TEST(Alike, AllRunsAreWhereTheCoresStay) {
  EXPECT_EQ(alike({{still(0.05), still(0.06)}, {{0.07, 0.055}, still(0.05)}}),
            Found({{true, true}, {true, true}}));
}

TEST(Alike, NothingMeasuredIsAlike) {
  EXPECT_EQ(alike({{Hops(), Hops()}, {Hops()}}), Found({{true, true}, {true}}));
}

TEST(Alike, ThoseAreThatTheOtherLibraryHas) {
  // Most of the first one's are near, but the second one has but one of these.
  const Runs runs{{still(0.05), still(0.05), still(0.05), still(0.25), still(0.25)},
                  {still(0.05), still(0.25), still(0.26), still(0.24), still(0.25)}};
  EXPECT_EQ(alike(runs),
            Found({{false, false, false, true, true}, {false, true, true, true, true}}));
}

TEST(Alike, TheNearerWhereThereAreAsManyOfBoth) {
  const Runs runs{{still(0.25), still(0.05)}, {still(0.05), still(0.25)}};
  EXPECT_EQ(alike(runs), Found({{false, true}, {true, false}}));
}

TEST(Alike, ARunThatTheCoresMovedInIsNot) {
  const Runs runs{{still(0.05), {0.05, 0.25}, {0.25, 0.05}}, {still(0.055), still(0.05)}};
  EXPECT_EQ(alike(runs), Found({{true, false, false}, {true, true}}));
}

TEST(Alike, NoneAreWhereTheCoresNeverWere) {
  EXPECT_EQ(alike({{still(0.05)}, {still(0.25)}}), Found({{false}, {false}}));
  EXPECT_EQ(alike({{still(0.05)}, {{0.05, 0.25}}}), Found({{false}, {false}}));
}

TEST(Alike, WhoHasNoRunsIsLeftOut) {
  EXPECT_EQ(alike({{still(0.05)}, {}, {still(0.05), still(0.25)}}),
            Found({{true}, {}, {true, false}}));
  EXPECT_EQ(alike({{}, {}}), Found({{}, {}}));
}

}  // namespace
}  // namespace weft::bench
