#include "base/clock.h"

#include <gtest/gtest.h>

#include <limits>

namespace weft {
namespace {

TEST(Deadline, PassesByItsClock) {
  ManualClock clock;
  const Deadline deadline = Deadline::after(2, clock);
  EXPECT_EQ(deadline.left_ns(), 2'000'000'000);
  EXPECT_EQ(deadline.left_ms(5000), 2000);
  clock.advance_to(1'999'999'999);
  EXPECT_FALSE(deadline.expired());
  EXPECT_EQ(deadline.left_ms(5000), 1);
  clock.advance_to(2'000'000'000);
  EXPECT_TRUE(deadline.expired());
  EXPECT_FALSE(deadline.cancelled());
  EXPECT_EQ(deadline.left_ns(), 0);
}

TEST(Deadline, MayBeCancelled) {
  ManualClock clock;
  std::atomic<bool> cancelled{false};
  for (const Deadline& deadline : {Deadline::after(2, clock), Deadline()}) {
    cancelled = false;
    const Deadline until = deadline.unless(cancelled);
    EXPECT_EQ(until.left_ns(), deadline.left_ns());
    EXPECT_EQ(until.left_ms(5000), 20);  // who waits has to look again
    EXPECT_FALSE(until.expired());
    cancelled = true;
    EXPECT_TRUE(until.expired());
    EXPECT_TRUE(until.cancelled());
    EXPECT_EQ(until.left_ns(), 0);
    EXPECT_EQ(until.left_ms(5000), 0);
    EXPECT_FALSE(deadline.expired());
  }
  EXPECT_EQ(Deadline().left_ns(), std::numeric_limits<int64_t>::max());
}

TEST(Deadline, TheSoonerOfTwoIsStillCancelled) {
  ManualClock clock;
  std::atomic<bool> cancelled{false};
  const Deadline deadline = Deadline::after(2, clock).unless(cancelled);
  EXPECT_EQ(deadline.at_most(1).left_ns(), 1'000'000'000);
  EXPECT_EQ(deadline.at_most(3).left_ns(), 2'000'000'000);
  EXPECT_FALSE(Deadline().at_most(60).never());
  EXPECT_FALSE(Deadline().at_most(60).expired());
  cancelled = true;
  for (const double seconds : {1, 3}) EXPECT_TRUE(deadline.at_most(seconds).cancelled());
  EXPECT_TRUE(Deadline().unless(cancelled).at_most(60).cancelled());
}

}  // namespace
}  // namespace weft
