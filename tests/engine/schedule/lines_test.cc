#include "engine/schedule/lines.h"

#include <gtest/gtest.h>

#include <span>
#include <string>

#include "engine/algorithms/catalog.h"
#include "engine/schedule/verify_run.h"

namespace weft {
namespace {

// Two ranks; each puts its chunk into a window and the other one folds it.
enum class Style { pull, push };

Schedule exchange_through_windows(Style style) {
  Schedule schedule{{Kind::all_reduce, 2, 0, false}, {}};
  for (Rank me = 0; me < 2; ++me) {
    const Rank other = 1 - me;
    Program program;
    program.window_slots = 1;
    program.window_halves = 2;
    Lane& lane = program.lane();
    lane.step(0).read(input()).write(window(style == Style::pull ? me : other, 0)).post(other, 0);
    lane.step(0)
        .read(input())
        .read(window(style == Style::pull ? other : me, 0))
        .write(output())
        .wait(other, 0)
        .finished();
    schedule.programs.push_back(program);
  }
  return schedule;
}

std::string complaint(const Schedule& schedule) {
  return std::string(check_lines(schedule).message());
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(Lines, CarryTheSignalsOfReadersWhoPull) {
  EXPECT_EQ(complaint(exchange_through_windows(Style::pull)), "ok");
}

// The reader's own window holds the lines, which lowering does not take for the peer's.
TEST(Lines, RefuseAPostThatIsLeftOutWhileItsWaitIsNot) {
  const std::string text = complaint(exchange_through_windows(Style::push));
  EXPECT_TRUE(has(text, "rank 0, lane 0, step 1") && has(text, "its post falls away")) << text;
}

TEST(Lines, RefuseAWaitForAnotherRoundsLines) {
  Schedule schedule = exchange_through_windows(Style::pull);
  schedule.programs[1].lanes[0].steps[1].waits[0].lag = 1;
  const std::string text = complaint(schedule);
  EXPECT_TRUE(has(text, "rank 1") && has(text, "its post falls away")) << text;
}

TEST(Lines, RefuseAWaitWhosePostComesWithoutLines) {
  Schedule schedule = exchange_through_windows(Style::pull);
  Lane& lane = schedule.programs[0].lanes[0];
  lane.step(0).post(1, 0);
  lane.steps[0].posts.clear();
  const std::string text = complaint(schedule);
  EXPECT_TRUE(has(text, "rank 1") && has(text, "does not come with the lines")) << text;
}

TEST(Lines, RefuseSlotsThatTwoStepsWrite) {
  Schedule schedule = exchange_through_windows(Style::pull);
  schedule.programs[0].lanes[0].step(0).read(input()).write(window(0, 0));
  const std::string text = complaint(schedule);
  EXPECT_TRUE(has(text, "window slot 0 of rank 0") && has(text, "another step")) << text;
}

TEST(Lines, RefuseReadersOfAnotherSlotThanTheSignalIsFor) {
  Schedule schedule = exchange_through_windows(Style::pull);
  for (Program& program : schedule.programs) program.window_slots = 2;
  Lane& lane = schedule.programs[0].lanes[0];
  lane.step(0).read(input()).write(window(0, 1));
  schedule.programs[1].lanes[0].steps[1].sources[1] = window(0, 1);
  const std::string text = complaint(schedule);
  EXPECT_TRUE(has(text, "reads no line that the posting step writes")) << text;
}

// In all_gather a rank may fill its slot again because the other one's next block is there, so the
// last one was read. Once that block has run out, its signals still say so, but no line does: which
// is why ll is only for blocks of equal sizes.
TEST(Lines, OfAnEmptyChunkOrderNothing) {
  const Schedule schedule =
      schedule_of(*find_algorithm("window_one_shot"), {Kind::all_gather, 2, 0, false}, {});
  const Result<symbolic::Plan> plan = symbolic::lower(schedule);
  ASSERT_TRUE(plan.ok());
  constexpr int kRounds = 8;
  const auto outcome = [&](std::vector<int> sizes, bool lines) {
    const symbolic::Call call{&*plan, kRounds, std::move(sizes), lines};
    return std::string(symbolic::Run(std::span(&call, 1), {2, 2}, 1).run().message());
  };
  EXPECT_EQ(outcome({kRounds, 1}, false), "ok");
  EXPECT_EQ(outcome({3, 3}, true), "ok");
  EXPECT_TRUE(has(outcome({kRounds, 1}, true), "in a race with"));
}

TEST(Lines, HoldForEveryAlgorithmOverWindows) {
  for (const Algorithm& algorithm : catalog()) {
    if (!algorithm.windows || !algorithm.lines) continue;
    for (int kind = 0; kind < kKinds; ++kind)
      for (int n = 1; n <= 9; ++n) {
        const Collective c{static_cast<Kind>(kind), n, 0, false};
        if (algorithm.suits(c)) {
          EXPECT_EQ(complaint(schedule_of(algorithm, c, {})), "ok") << algorithm.name << n;
        }
      }
  }
}

// Two ranks write there in turn, so a flag would not say whose line it is.
TEST(Lines, AreNotForSlotsThatAreHandedBack) {
  const Schedule schedule =
      schedule_of(*find_algorithm("window_round_trip"), {Kind::all_reduce, 2, 0, false}, {});
  EXPECT_TRUE(has(complaint(schedule), "which another step writes, too"));
}

}  // namespace
}  // namespace weft
