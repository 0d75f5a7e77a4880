// Schedules that are right only as long as nothing is short, or little is under way: each is proven
// in the ways that it is right in, and refused for the one that it is wrong in.
#include "engine/schedule/prove.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/interpret.h"
#include "transport/tcp/credit.h"

namespace weft {
namespace {

const Operand kInput{.buffer = Buffer::input}, kOutput{.buffer = Buffer::output};
const Operand kScratch{.buffer = Buffer::scratch};

// "ok", or the first way that is refused.
std::string refused(const Schedule& schedule, std::span<const int> slots) {
  for (const WayToRun& way : ways_to_run(schedule, slots))
    if (!prove(schedule, way).status.ok()) return describe(way);
  return "ok";
}

// Rank 0's lane 0 takes its sum of chunk 0 out of scratch memory when chunk 1 has come back, which
// lane 1 has sent after it had put the sum there.
Schedule relies_on_the_next_piece(int pieces = 2) {
  Schedule s{{Kind::all_reduce, 2, 0, false}, std::vector<Program>(2)};
  for (Program& program : s.programs) program.pieces = pieces;
  s.programs[0].scratch_slots = 1;
  Lane& takes = s.programs[0].lane();
  takes.step(1).recv({1, 1}).write(kOutput);
  takes.step(0).read(kScratch).write(kOutput).send({1, 3}).finished();
  Lane& puts = s.programs[0].lane();
  puts.step(0).recv({1, 0}).read(kInput).write(kScratch);
  puts.step(1).read(kInput).send({1, 2});
  Lane& other = s.programs[1].lane();
  other.step(0).read(kInput).send({0, 0});
  other.step(1).recv({0, 2}).read(kInput).write(kOutput).send({0, 1}).finished();
  other.step(0).recv({0, 3}).write(kOutput);
  for (Rank me = 0; me < 2; ++me)
    for (int piece = 2; piece < pieces; ++piece) {
      Lane& exchange = s.programs[static_cast<size_t>(me)].lane();
      exchange.step(piece).read(kInput).send({1 - me, 2 + piece});
      exchange.step(piece).recv({1 - me, 2 + piece}).read(kInput).write(kOutput).finished();
    }
  return s;
}

TEST(Prove, ShortCallsLackTheirLaterPieces) {
  const int slots[] = {2};
  const Schedule s = relies_on_the_next_piece();
  EXPECT_TRUE(verify(s, {.slots = 2}).status.ok());
  EXPECT_TRUE(verify(s, {.slots = 2, .sizes = {4, 4}}).status.ok());
  EXPECT_FALSE(verify(s, {.slots = 2, .sizes = {4, 0}}).status.ok());
  constexpr const char* kShort = "2 slots, elements up to round 0 of piece 0";
  EXPECT_EQ(refused(s, slots), kShort);
  EXPECT_EQ(refused(relies_on_the_next_piece(200), slots), kShort);
  // Nor do runs on numbers show it but with such calls.
  const Schedule* const once[] = {&s};
  bool broken = false;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    EXPECT_TRUE(interpret(once, {.seed = seed}).ok());
    broken |= !interpret(once, {.full_pieces = 1, .seed = seed}).ok();
  }
  EXPECT_TRUE(broken);
}

// The same with blocks of their own sizes, of which others may be empty.
TEST(Prove, OtherBlocksMayBeEmpty) {
  Schedule s{{Kind::all_gather, 2, 0, false}, std::vector<Program>(2)};
  s.programs[0].scratch_slots = 1;
  Lane& takes = s.programs[0].lane();
  takes.step(1).recv({1, 2});
  takes.step(0).read(kScratch).write(kOutput).send({1, 3});
  Lane& puts = s.programs[0].lane();
  puts.step(1).recv({1, 0}).write(kOutput);
  puts.step(0).read(kInput).write(kScratch);
  puts.step(1).read(kOutput).send({1, 1});
  Lane& other = s.programs[1].lane();
  other.step(1).read(kInput).write(kOutput).send({0, 0});
  other.step(1).recv({0, 1});
  other.step(1).read(kInput).send({0, 2});
  other.step(0).recv({0, 3}).write(kOutput);
  EXPECT_TRUE(verify(s, {.slots = 2}).status.ok());
  const int slots[] = {2};
  EXPECT_NE(refused(s, slots), "ok");
}

// Rank 0's lane 1 takes `many` messages, but first it puts its sum into scratch memory. Where fewer
// have room on the way, rank 1 can send what comes behind them only then, and lane 0 takes that for
// a sign that the sum is there.
Schedule relies_on_few_under_way(int many) {
  Schedule s{{Kind::all_reduce, 2, 0, false}, std::vector<Program>(2)};
  s.programs[0].scratch_slots = 1;
  Lane& takes = s.programs[0].lane();
  takes.step(0).recv({1, 1});
  takes.step(0).read(kScratch).write(kOutput).send({1, 3}).finished();
  takes.step(0).read(kInput).send({1, 4});
  Lane& puts = s.programs[0].lane();
  puts.step(0).recv({1, 2}).read(kInput).write(kScratch);
  for (int i = 0; i < many; ++i) puts.step(0).recv({1, 0});
  Lane& sends = s.programs[1].lane();
  for (int i = 0; i < many; ++i) sends.step(0).read(kInput).send({0, 0});
  sends.step(0).read(kInput).send({0, 1});
  sends.step(0).recv({0, 3}).write(kOutput);
  Lane& beside = s.programs[1].lane();
  beside.step(0).read(kInput).send({0, 2});
  beside.step(0).recv({0, 4});  // scratch memory is free again
  return s;
}

TEST(Prove, ShortMessagesAreManyUnderWay) {
  static_assert(kMessagesPerSlot == tcp::Credit::kSlot);
  const int few[] = {2, 8};
  const Schedule s = relies_on_few_under_way(12);
  EXPECT_EQ(refused(s, few), "ok");
  EXPECT_EQ(refused(s, kUsualSlots), "2 to 64 slots");
  EXPECT_EQ(refused(relies_on_few_under_way(60), slots_to_prove(0)), "2 to 64 slots");
  EXPECT_EQ(refused(relies_on_few_under_way(70), slots_to_prove(0)), "ok");
  EXPECT_EQ(refused(relies_on_few_under_way(70), slots_to_prove(10)), "2 to 80 slots");
  EXPECT_EQ(refused(relies_on_few_under_way(1500), slots_to_prove(200)), "2 to 1600 slots");
  EXPECT_EQ(slots_to_prove(0), (std::vector<int>{2, 64}));
  EXPECT_EQ(slots_to_prove(8), (std::vector<int>{2, 64}));
  EXPECT_EQ(slots_to_prove(1 << 20), (std::vector<int>{2, 1 << 23}));
  EXPECT_EQ(refused(relies_on_few_under_way(40), slots_to_prove(1 << 20)), "2 to 8388608 slots");
}

// One run with the least and the most room finds what runs with every count between them do.
TEST(Prove, TheLeastAndTheMostRoomStandForAllBetween) {
  for (const int many : {1, 3, 6}) {
    const Schedule s = relies_on_few_under_way(many);
    for (int least = 1; least <= 8; ++least) {
      bool all = true;
      for (int most = least; most <= 8; ++most) {
        all &= verify(s, {.slots = most}).status.ok();
        EXPECT_EQ(verify(s, {.slots = least, .most_slots = most}).status.ok(), all)
            << many << " messages, " << least << " to " << most << " slots";
      }
    }
  }
  const Schedule s = relies_on_few_under_way(3);
  EXPECT_FALSE(verify(s, {.slots = 3, .most_slots = 2}).status.ok());
}

// The root's lane 0 takes out of scratch memory what lane 1 has put there. With little room lane 0
// comes to that only when lane 1's chunk 0 has been taken; with more, only the message of chunk 1,
// which lane 1 sends later, says so: if chunk 1 has elements.
Schedule relies_on_room_or_the_next_piece() {
  Schedule s{{Kind::broadcast, 2, 0, false}, std::vector<Program>(2)};
  for (Program& program : s.programs) program.pieces = 2;
  s.programs[0].scratch_slots = 3;
  s.programs[1].scratch_slots = 1;
  Lane& takes = s.programs[0].lane();
  takes.step(1).recv({1, 2}).write(scratch(1));
  for (int i = 0; i < 3; ++i) takes.step(0).read(kInput).send({1, 1});
  takes.step(0).read(scratch(0)).send({1, 1});
  Lane& puts = s.programs[0].lane();
  puts.step(0).read(kInput).write(scratch(0));
  for (const int chunk : {0, 1}) puts.step(chunk).read(kInput).send({1, 0});
  puts.step(0).recv({1, 3}).write(scratch(2));
  for (const int chunk : {0, 1}) puts.step(chunk).read(kInput).write(kOutput);
  Lane& other = s.programs[1].lane();
  other.step(0).recv({0, 0}).write(kScratch);
  other.step(1).recv({0, 0}).write(kOutput);
  other.step(1).read(kOutput).send({0, 2});
  for (int i = 0; i < 3; ++i) other.step(0).recv({0, 1}).write(kScratch);
  other.step(0).recv({0, 1}).write(kOutput);
  other.step(0).read(kOutput).send({0, 3});
  return s;
}

TEST(Prove, ShortCallsHaveMuchRoom) {
  const Schedule s = relies_on_room_or_the_next_piece();
  const int few[] = {2}, many[] = {2, 8};
  EXPECT_EQ(refused(s, few), "ok");
  EXPECT_TRUE(verify(s, {.slots = 8}).status.ok());
  EXPECT_EQ(refused(s, many), "2 to 8 slots, elements up to round 0 of piece 0");
}

Schedule of_one_rank() {
  Schedule s{{Kind::all_reduce, 1, 0, false}, std::vector<Program>(1)};
  s.programs[0].lane().step(0).read(kInput).write(kOutput).finished();
  return s;
}

TEST(Prove, SaysWhereOnlyCopiesAreTooLarge) {
  Schedule s = of_one_rank();
  s.programs[0].window_slots = 600'000;
  EXPECT_TRUE(prove(s, {{.slots = 2}}).status.ok());
  const std::string why(prove(s, {{.slots = 2}, 2}).status.message());
  EXPECT_TRUE(why.starts_with("it cannot be run with several lanes: ")) << why;
}

// Neither time nor memory is spent on what is refused.
TEST(Prove, RefusesWhatWouldTakeTooMuch) {
  Schedule lanes = of_one_rank();
  lanes.programs[0].lanes.resize(60'000);
  Schedule ranks{{Kind::barrier, 1 << 14, 0, false}, std::vector<Program>(1 << 14)};
  Schedule steps = of_one_rank();
  for (Step& step : steps.programs[0].lanes[0].steps) step.times = 1 << 20;
  steps.programs[0].lanes[0].steps.resize(4, steps.programs[0].lanes[0].steps[0]);
  Schedule windows = of_one_rank();
  windows.programs[0].window_slots = 1 << 20;
  windows.programs[0].window_halves = 120;
  for (const Schedule& s : {lanes, ranks, steps, windows}) {
    const std::string why(verify(s, {.slots = 2}).status.message());
    EXPECT_NE(why.find("too large to be verified"), why.npos) << why;
  }
}

}  // namespace
}  // namespace weft
