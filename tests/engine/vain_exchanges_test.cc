#include "engine/vain_exchanges.h"

#include <gtest/gtest.h>

#include <vector>

namespace weft {
namespace {

const PlanCache::Key kShape{1, 2, 3}, kOther{1, 2, 4};

// Which of the first calls begin with an exchange, where each turns out so.
std::vector<uint64_t> exchanging(VainExchanges& vain, uint64_t calls, bool in_vain) {
  std::vector<uint64_t> found;
  for (uint64_t call = 1; call <= calls; ++call) {
    if (vain.rest_until(kShape) > call) continue;
    found.push_back(call);
    vain.note(kShape, call, in_vain);
  }
  return found;
}

TEST(VainExchanges, RestForTwiceAsLongEachTime) {
  VainExchanges vain;
  EXPECT_EQ(exchanging(vain, 70, true), (std::vector<uint64_t>{1, 3, 7, 15, 31, 63}));
  EXPECT_EQ(vain.rest_until(kOther), 0u);
}

TEST(VainExchanges, RestNoLongerThanThat) {
  VainExchanges vain;
  const std::vector<uint64_t> found = exchanging(vain, 10'000, true);
  EXPECT_EQ(found.back() - found[found.size() - 2], VainExchanges::kMostCalls + 1);
}

TEST(VainExchanges, ThatAreOfUseNeverRest) {
  VainExchanges vain;
  EXPECT_EQ(exchanging(vain, 50, false).size(), 50u);
  vain.note(kShape, 50, true);
  EXPECT_EQ(vain.rest_until(kShape), 52u);
  vain.note(kShape, 52, false);
  EXPECT_EQ(vain.rest_until(kShape), 0u);
  vain.note(kShape, 53, true);
  EXPECT_EQ(vain.rest_until(kShape), 55u) << "from the beginning";
}

TEST(VainExchanges, AreRememberedOfSoManyShapes) {
  VainExchanges vain;
  for (uint64_t shape = 0; shape < 5000; ++shape) {
    vain.note({shape}, shape, true);
    EXPECT_EQ(vain.rest_until({shape}), shape + 2);
  }
}

}  // namespace
}  // namespace weft
