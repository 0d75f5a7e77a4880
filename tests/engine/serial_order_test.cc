#include "engine/executor/serial_order.h"

#include <gtest/gtest.h>

#include <vector>

namespace weft {
namespace {

using Order = std::vector<uint32_t>;

Order order_of(const std::vector<Program>& programs, Rank me, uint32_t slots = 2) {
  const auto order = serial_order(programs, me, slots);
  EXPECT_TRUE(order.ok()) << order.status().to_string();
  return order.ok() ? *order : Order{};
}

TEST(SerialOrder, TakesLanesInTurn) {
  Program program;
  for (int lane = 0; lane < 2; ++lane)
    for (int step = 0; step < 2; ++step) {
      if (step == 0) program.lane();
      program.lanes.back().step(0).read(input()).write(output());
    }
  EXPECT_EQ(order_of({program}, 0), (Order{0, 1, 0, 1}));
}

TEST(SerialOrder, PutsAPostBeforeWhoWaitsForIt) {
  Program program;
  program.lane().step(0).wait(0, 7);
  program.lane().step(0).post(0, 7);
  EXPECT_EQ(order_of({program}, 0), (Order{1, 0}));
  program.lanes[0].steps[0].waits[0].lag = 1;  // for the round before
  EXPECT_EQ(order_of({program}, 0), (Order{0, 1}));
}

TEST(SerialOrder, PutsAMessageBeforeWhoReceivesIt) {
  std::vector<Program> programs(2);
  for (const Rank me : {0, 1}) {
    Program& program = programs[static_cast<size_t>(me)];
    program.lane().step(0).recv({1 - me, 0}).write(output());
    program.lane().step(0).read(input()).send({1 - me, 0});
  }
  EXPECT_EQ(order_of(programs, 0), (Order{1, 0}));  // one of them has to send first
  EXPECT_EQ(order_of(programs, 1), (Order{0, 1}));
}

// A loop is gone through time by time, a message of several chunks goes out when it is whole.
TEST(SerialOrder, CountsTimesAndWholeMessages) {
  std::vector<Program> programs(2);
  Lane& sends = programs[0].lane();
  sends.step(0).read(input()).send({1, 0}).go_on();
  sends.step(1).read(input()).send({1, 0});
  sends.step(0).read(input()).send({1, 0}).repeat(2, 1);
  Lane& receives = programs[1].lane();
  receives.step(0).recv({0, 0}).write(output()).go_on();
  receives.step(1).recv({0, 0}).write(output());
  receives.step(0).recv({0, 0}).write(output()).repeat(2, 1);
  EXPECT_EQ(order_of(programs, 0), (Order{0, 0, 0, 0}));
  EXPECT_EQ(order_of(programs, 1), (Order{0, 0, 0, 0}));
}

// Three messages that are received after the third one's signal: they need three slots.
TEST(SerialOrder, SaysWhereSlotsDoNotSuffice) {
  std::vector<Program> programs(2);
  Lane& sends = programs[0].lane();
  for (int i = 0; i < 3; ++i) sends.step(0).read(input()).send({1, 0});
  sends.steps.back().post(1, 0);
  Lane& receives = programs[1].lane();
  receives.step(0).wait(0, 0);
  for (int i = 0; i < 3; ++i) receives.step(0).recv({0, 0}).write(output());
  EXPECT_EQ(order_of(programs, 0, 3), (Order{0, 0, 0}));
  const Status refused = serial_order(programs, 0, 2).status();
  EXPECT_EQ(refused.code(), Code::internal);
  EXPECT_EQ(refused.message(), "rank 0's lane 0 stops at step 2 where steps are taken in turn");
}

}  // namespace
}  // namespace weft
