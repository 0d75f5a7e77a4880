// Which node a rank is on: by its launcher's words, or by machine.
#include "fabric/places.h"

#include <gtest/gtest.h>

namespace weft::test {
namespace {

using Places = std::vector<RankPlace>;

TEST(Places, ByMachine) {
  EXPECT_EQ(places_by_machine({0, 1, 0, 1}), (Places{{0, 0}, {1, 0}, {0, 1}, {1, 1}}));
}

TEST(Places, ByNumberedNodesAndLocalRanks) {
  EXPECT_EQ(places_by_launcher({{1, 0}, {1, 1}, {0, 1}, {0, 0}}, {0, 0, 0, 0}),
            (Places{{1, 0}, {1, 1}, {0, 1}, {0, 0}}));
}

// Two nodes on one machine, as of our own launcher and of mpirun in containers.
TEST(Places, NodesWithoutNumbersAreToldApartByLocalRanks) {
  const Places blocks = {{0, 0}, {0, 1}, {1, 0}, {1, 1}}, turns = {{0, 0}, {1, 0}, {0, 1}, {1, 1}};
  EXPECT_EQ(places_by_launcher({{-1, 0}, {-1, 1}, {-1, 0}, {-1, 1}}, {0, 0, 0, 0}), blocks);
  EXPECT_EQ(places_by_launcher({{-1, 0}, {-1, 0}, {-1, 1}, {-1, 1}}, {0, 0, 0, 0}), turns);
  EXPECT_EQ(places_by_launcher({{-1, 0}, {-1, 0}, {-1, 1}, {-1, 1}}, {0, 1, 0, 1}), turns);
}

TEST(Places, OfRanksThatAreLeftMoveUp) {
  EXPECT_EQ(places_by_launcher({{1, 1}, {3, 0}, {3, 2}}, {0, 0, 0}),
            (Places{{0, 0}, {1, 0}, {1, 1}}));
}

TEST(Places, AreMachinesWhereRanksWereToldNothingOrContradictions) {
  const std::vector<int> hosts = {0, 1};
  const Places machines = {{0, 0}, {1, 0}};
  EXPECT_EQ(places_by_launcher({{}, {}}, hosts), machines);
  EXPECT_EQ(places_by_launcher({{0, 0}, {}}, hosts), machines);
  EXPECT_EQ(places_by_launcher({{0, 1}, {0, 1}}, hosts), machines);
}

TEST(Places, HintsTravelAsText) {
  const PlaceHint hint = hint_from(to_text({3, 1}));
  EXPECT_EQ(hint.node, 3);
  EXPECT_EQ(hint.local_rank, 1);
  EXPECT_EQ(hint_from(to_text({})).local_rank, -1);
  for (const char* text : {"", "x", "1", "a b", "99999999999 1 2"})
    EXPECT_EQ(hint_from(text).local_rank, -1) << text;
}

}  // namespace
}  // namespace weft::test
