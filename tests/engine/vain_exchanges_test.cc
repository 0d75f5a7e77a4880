#include "engine/vain_exchanges.h"

#include <gtest/gtest.h>

#include <vector>

namespace weft {
namespace {

constexpr uint64_t kCall = 123, kOther = 124;  // fingerprints

// Which of the first calls begin with an exchange, where each turns out so.
std::vector<uint64_t> exchanging(VainExchanges& vain, uint64_t calls, bool in_vain) {
  std::vector<uint64_t> found;
  for (uint64_t number = 1; number <= calls; ++number) {
    if (vain.rest_until(kCall) > number) continue;
    found.push_back(number);
    vain.note(kCall, number, in_vain);
  }
  return found;
}

TEST(VainExchanges, RestForTwiceAsLongEachTime) {
  VainExchanges vain;
  EXPECT_EQ(exchanging(vain, 70, true), (std::vector<uint64_t>{1, 4, 9, 18, 35, 68}));
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
  vain.note(kCall, 50, true);
  EXPECT_EQ(vain.rest_until(kCall), 53u);
  vain.note(kCall, 53, false);
  EXPECT_EQ(vain.rest_until(kCall), 0u);
  vain.note(kCall, 54, true);
  EXPECT_EQ(vain.rest_until(kCall), 57u) << "from the beginning";
}

// A loop over two buffers, of which one can be read: it is found out.
TEST(VainExchanges, OfEveryOtherCallDoNotHideTheRest) {
  VainExchanges vain;
  int of_use = 0;
  for (uint64_t number = 1; number <= 10'000; ++number) {
    if (vain.rest_until(kCall) > number) continue;
    const bool in_vain = number % 2 == 1;
    of_use += in_vain ? 0 : 1;
    vain.note(kCall, number, in_vain);
  }
  EXPECT_GT(of_use, 2'000);
}

TEST(VainExchanges, AreRememberedOfSoManyCalls) {
  VainExchanges vain;
  for (uint64_t call = 0; call < VainExchanges::kMostKnown; ++call) vain.note(call, 1, true);
  EXPECT_EQ(vain.rest_until(0), 4u);
  vain.note(0, 4, true);  // it is known
  EXPECT_EQ(vain.rest_until(1), 4u);
  vain.note(VainExchanges::kMostKnown, 5, true);
  EXPECT_EQ(vain.rest_until(0), 0u);
  EXPECT_EQ(vain.rest_until(VainExchanges::kMostKnown), 8u);
}

}  // namespace
}  // namespace weft
