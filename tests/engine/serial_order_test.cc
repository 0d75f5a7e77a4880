#include "engine/executor/serial_order.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "base/text.h"
#include "engine/algorithms/catalog.h"

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

// Ranks that take their steps in such orders, each its own, round after round, and those of a
// message without a break.
class InTurn {
 public:
  InTurn(const std::vector<Program>& programs, const std::vector<Order>& orders)
      : programs_(programs), orders_(orders), at_(programs.size()) {
    for (size_t r = 0; r < at_.size(); ++r) begin(r);
  }

  // Which rank stops where; empty where all come to the end.
  std::string play() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t r = 0; r < at_.size(); ++r)
        while (at_[r].round < kRounds && go_on(r)) moved = true;
    }
    for (size_t r = 0; r < at_.size(); ++r)
      if (at_[r].round < kRounds)
        return concat("rank ", r, " stops in round ", at_[r].round, " at ", at_[r].next, " of ",
                      orders_[r].size());
    return {};
  }

 private:
  static constexpr int kRounds = 5, kSlots = 2;
  struct At {
    int round = 0;
    size_t next = 0;                            // of the order
    std::vector<std::pair<size_t, int>> lanes;  // step and time
  };
  using Key = std::tuple<Rank, Rank, int>;

  void begin(size_t r) {
    at_[r].next = 0;
    at_[r].lanes.assign(programs_[r].lanes.size(), {0, 0});
    if (orders_[r].empty()) at_[r].round = kRounds;
  }

  bool may_go_on(Rank me, const Step& step, bool first, int round) {
    for (const Signal& wait : step.waits)
      if (round >= wait.lag && posted_[{wait.peer, me, wait.cell}] < round - wait.lag + 1)
        return false;
    if (!first) return true;
    if (step.from.used() && sent_[{step.from.peer, me, step.from.id}] == 0) return false;
    return !step.to.used() || taken_[{me, step.to.peer, step.to.id}] < kSlots;
  }

  bool go_on(size_t r) {
    At& at = at_[r];
    const auto me = static_cast<Rank>(r);
    const uint32_t number = orders_[r][at.next];
    const Lane& lane = programs_[r].lanes[number];
    auto& [index, time] = at.lanes[number];
    const Step& step = lane.steps[index];
    const bool first = index == 0 || !lane.steps[index - 1].more;
    if (!may_go_on(me, step, first, at.round)) return false;
    if (first && step.to.used()) ++taken_[{me, step.to.peer, step.to.id}];
    if (!step.more && step.to.used()) ++sent_[{me, step.to.peer, step.to.id}];
    if (!step.more && step.from.used()) {
      --sent_[{step.from.peer, me, step.from.id}];
      --taken_[{step.from.peer, me, step.from.id}];
    }
    for (const Signal& post : step.posts) ++posted_[{me, post.peer, post.cell}];
    if (++time == step.times) ++index, time = 0;
    if (++at.next < orders_[r].size()) return true;
    ++at.round;
    begin(r);
    return true;
  }

  const std::vector<Program>& programs_;
  const std::vector<Order>& orders_;
  std::vector<At> at_;
  std::map<Key, int> sent_, taken_, posted_;
};

// A rank makes its order of the programs that all have if all are in place, or not, as it is.
void expect_end_whoever_is_in_place(const Algorithm& algorithm, Kind kind, int ranks) {
  std::vector<Program> programs[2];  // in place or not
  std::vector<Order> orders[2];
  for (const bool in_place : {false, true}) {
    const Collective c{kind, ranks, 0, in_place};
    if (!algorithm.suits(c)) return;
    for (Rank r = 0; r < ranks; ++r) programs[in_place].push_back(algorithm.build(c, r, {}));
    for (Rank r = 0; r < ranks; ++r) orders[in_place].push_back(order_of(programs[in_place], r));
  }
  if (programs[0] == programs[1]) return;
  for (unsigned mask = 0; mask < 1u << ranks; ++mask) {
    std::vector<Program> all;
    std::vector<Order> order;
    for (Rank r = 0; r < ranks; ++r) {
      all.push_back(programs[mask >> r & 1][static_cast<size_t>(r)]);
      order.push_back(orders[mask >> r & 1][static_cast<size_t>(r)]);
    }
    ASSERT_EQ(InTurn(all, order).play(), "")
        << name(kind) << " by " << algorithm.name << ", " << ranks << " ranks, mask " << mask;
  }
}

TEST(SerialOrder, ServesRanksOfWhichSomeAreInPlace) {
  for (const Algorithm& algorithm : catalog())
    for (int kind = 0; kind < kKinds; ++kind)
      for (int ranks = 2; ranks <= 8; ++ranks)
        expect_end_whoever_is_in_place(algorithm, static_cast<Kind>(kind), ranks);
}

}  // namespace
}  // namespace weft
