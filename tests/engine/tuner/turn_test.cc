// Algorithm::turn: what is claimed there is compared with all programs.
#include <gtest/gtest.h>

#include "engine/algorithms/algorithm.h"
#include "engine/algorithms/words.h"

namespace weft {
namespace {

void turn_by(Rank& rank, int by, int ranks) {
  if (rank >= 0) rank = wrap(rank + by, ranks);
}

// The step as a rank `by` further on would do it; chunks and slots, which carry names of their own,
// are left out.
Step turned(Step step, int by, int ranks) {
  step.chunk = 0;
  turn_by(step.from.peer, by, ranks);
  turn_by(step.to.peer, by, ranks);
  for (Signal& s : step.waits) turn_by(s.peer, by, ranks);
  for (Signal& s : step.posts) turn_by(s.peer, by, ranks);
  for (auto* operands : {&step.sources, &step.targets})
    for (Operand& o : *operands) turn_by(o.rank, by, ranks), o.slot = 0;
  return step;
}

void expect_turned(const Program& one, const Program& other, int by, int ranks) {
  EXPECT_EQ(one.pieces, other.pieces);
  EXPECT_EQ(one.message_chunks, other.message_chunks);
  ASSERT_EQ(one.lanes.size(), other.lanes.size());
  for (size_t l = 0; l < one.lanes.size(); ++l) {
    ASSERT_EQ(one.lanes[l].steps.size(), other.lanes[l].steps.size());
    for (size_t s = 0; s < one.lanes[l].steps.size(); ++s)
      EXPECT_EQ(turned(one.lanes[l].steps[s], by, ranks), turned(other.lanes[l].steps[s], 0, ranks))
          << "lane " << l << ", step " << s;
  }
}

TEST(Turn, ProgramsAreWhatTheyAreSaidToBe) {
  int claims = 0;
  for (const Algorithm& algorithm : catalog())
    for (int k = 0; k < kKinds; ++k)
      for (const int ranks : {1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 33})
        for (const bool in_place : {false, true}) {
          const Collective c{static_cast<Kind>(k), ranks, 0, in_place};
          if (!algorithm.turn || !algorithm.suits(c) || algorithm.turn(c, {}) == 0) continue;
          SCOPED_TRACE(testing::Message()
                       << algorithm.name << ", " << name(c.kind) << ", " << ranks);
          const int turn = algorithm.turn(c, {});
          for (Rank rank = 0; rank + turn < ranks; ++rank)
            expect_turned(algorithm.build(c, rank, {}), algorithm.build(c, rank + turn, {}), turn,
                          ranks);
          ++claims;
        }
  EXPECT_GT(claims, 60);
}

}  // namespace
}  // namespace weft
