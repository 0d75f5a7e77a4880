#include "engine/executor/store_trial.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

constexpr uint64_t kBytes = 1 << 20;
constexpr uint64_t kLap = 20, kTurns = kLap + StoreTrial::kTimed;
constexpr uint64_t kBegin = 40, kSecond = kBegin + kTurns;
constexpr uint64_t kTrial = kSecond + kTurns;  // its end

constexpr StoreTrial::Turns kTurnsOf1M{.before = kBegin, .untimed = kLap, .bytes = kBytes};
constexpr StoreTrial::Turns kTurnsOf4K{.before = kBegin, .untimed = kLap, .bytes = 4096};

// Turns [begin, end), which take so many ticks per byte each way.
void play(StoreTrial& trial, uint64_t begin, uint64_t end, uint64_t cached, uint64_t streamed) {
  for (uint64_t number = begin; number < end; ++number) {
    StoreTrial::Turn turn = trial.begin(number);
    turn.bytes = 1000;
    turn.ticks = 1000 * (turn.streams ? streamed : cached);
    if (trial.end(turn, number)) trial.decide(trial.costs());
  }
}

TEST(StoreTrial, TriesBothWaysAndThenTakesTheFaster) {
  StoreTrial trial(kTurnsOf1M);
  for (uint64_t number = 0; number < kTrial; ++number) {
    const StoreTrial::Turn turn = trial.begin(number);
    EXPECT_EQ(turn.streams, number >= kSecond);
    const uint64_t of_way = (number - kBegin) % kTurns;
    EXPECT_EQ(turn.timed, number >= kBegin && of_way >= kLap) << number;
  }
  play(trial, 0, kTrial, 5, 4);
  EXPECT_TRUE(trial.begin(kTrial).streams);
  EXPECT_TRUE(trial.begin(StoreTrial::kPeriodLeast - 1).streams);
  EXPECT_FALSE(trial.begin(StoreTrial::kPeriodLeast - 1).timed);
  EXPECT_FALSE(trial.begin(StoreTrial::kPeriodLeast + kBegin).streams);  // the next trial
  play(trial, kTrial, StoreTrial::kPeriodLeast + kTrial, 3, 8);
  EXPECT_FALSE(trial.begin(kTrial).streams);
}

// A benchmark may make no more than a few dozen calls.
TEST(StoreTrial, ComesSoon) {
  const auto is_timed = [](uint64_t before, uint64_t number) {
    return StoreTrial({.before = before, .untimed = 4, .bytes = kBytes}).begin(number).timed;
  };
  for (const uint64_t before : {0, 8, 64}) {
    EXPECT_FALSE(is_timed(before, before + 3));
    EXPECT_TRUE(is_timed(before, before + 4));
    EXPECT_EQ(is_timed(1000, before + 4), before == StoreTrial::kBeforeMost);
  }
}

// Where a trial is that close, it may be wrong, and ways that differ are further apart.
TEST(StoreTrial, KeepsItsWayUnlessTheOtherIsClearlyFaster) {
  StoreTrial trial(kTurnsOf1M);
  play(trial, 0, kTrial, 10, 9);
  EXPECT_FALSE(trial.begin(kTrial).streams);
  StoreTrial streaming(kTurnsOf1M);
  play(streaming, 0, kTrial, 10, 8);
  EXPECT_TRUE(streaming.begin(kTrial).streams);
  play(streaming, kTrial, StoreTrial::kPeriodLeast + kTrial, 8, 12);  // in the mean 9 and 10
  EXPECT_TRUE(streaming.begin(kTrial).streams);
}

// In small turns a lane would spend its time on trials.
TEST(StoreTrial, ComesRarelyWhereTurnsAreSmall) {
  EXPECT_EQ(StoreTrial(kTurnsOf1M).period(), StoreTrial::kPeriodLeast);
  EXPECT_EQ(StoreTrial(kTurnsOf4K).period(), 65536u);
  StoreTrial trial(kTurnsOf4K);
  play(trial, 0, kTrial, 4, 5);
  EXPECT_FALSE(trial.begin(StoreTrial::kPeriodLeast + kSecond).streams);
  EXPECT_TRUE(trial.begin(trial.period() + kSecond).streams);
}

// An interruption makes one turn long, not a way slow.
TEST(StoreTrial, IsNotFooledByAnInterruption) {
  StoreTrial trial(kTurnsOf1M);
  StoreTrial::Turn turn = trial.begin(kSecond + kLap);
  ASSERT_TRUE(turn.streams && turn.timed);
  turn.bytes = 1000;
  turn.ticks = 1'000'000;
  trial.end(turn, kSecond + kLap);
  play(trial, 0, kTrial, 5, 4);
  EXPECT_TRUE(trial.begin(kTrial).streams);
}

TEST(StoreTrial, GoesByAllBytesOfATurn) {
  StoreTrial trial(kTurnsOf1M);
  for (uint64_t number = 0; number < kTrial; ++number) {
    StoreTrial::Turn turn = trial.begin(number);
    turn.bytes = turn.streams ? 2000 : 1000;
    turn.ticks = turn.streams ? 6000 : 4000;
    if (trial.end(turn, number)) trial.decide(trial.costs());
  }
  EXPECT_TRUE(trial.begin(kTrial).streams);
}

// Where a rank moved nothing in a trial, or only part of it was run.
TEST(StoreTrial, StaysWithTheCachesUntilBothWaysWereTimed) {
  StoreTrial trial(kTurnsOf1M);
  for (uint64_t number = 0; number < kTrial; ++number)
    if (trial.end(trial.begin(number), number)) trial.decide(trial.costs());
  EXPECT_FALSE(trial.begin(kTrial).streams);
  play(trial, kSecond, kTrial, 5, 4);
  EXPECT_FALSE(trial.begin(kTrial).streams);
  play(trial, kBegin, kTrial, 5, 4);
  EXPECT_TRUE(trial.begin(kTrial).streams);
}

// A reader for whom what lies in memory is slow outvotes a writer for whom it is fast.
TEST(StoreTrial, GoesByTheSlowestRank) {
  StoreTrial trial(kTurnsOf1M);
  for (uint64_t number = 0; number < kTrial; ++number) {
    StoreTrial::Turn turn = trial.begin(number);
    turn.bytes = 1000;
    turn.ticks = turn.streams ? 4000 : 5000;
    EXPECT_EQ(trial.end(turn, number), number == kTrial - 1);
  }
  EXPECT_TRUE(trial.undecided());
  StoreTrial::Costs costs = trial.costs();
  EXPECT_EQ(costs.way[0], 5000);
  EXPECT_EQ(costs.way[1], 4000);
  costs.add({{4500, 6000}});
  trial.decide(costs);
  EXPECT_FALSE(trial.undecided());
  EXPECT_FALSE(trial.begin(kTrial).streams);
}

TEST(StoreTrial, DoesNotWaitForEverForWhatOthersFound) {
  StoreTrial trial(kTurnsOf1M);
  for (uint64_t number = 0; number < kTrial; ++number) trial.end(trial.begin(number), number);
  int turns = 1;
  while (trial.waits()) ++turns;
  EXPECT_LT(turns, static_cast<int>(StoreTrial::kPeriodLeast - kTrial));
}

}  // namespace
}  // namespace weft
