// Algorithm::turn: what is claimed there is compared with all programs.
#include <gtest/gtest.h>

#include "engine/algorithms/algorithm.h"
#include "engine/algorithms/words.h"
#include "tests/support/sanitized.h"

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

int check_claim(const Algorithm& algorithm, const Collective& c, const Parameters& parameters) {
  if (!algorithm.turn || !algorithm.suits(c)) return 0;
  const int turn = algorithm.turn(c, parameters);
  if (turn == 0) return 0;
  SCOPED_TRACE(testing::Message() << algorithm.name << ", " << name(c.kind) << " of " << c.ranks
                                  << ", radix " << parameters.radix);
  for (Rank rank = 0; rank + turn < c.ranks; ++rank)
    expect_turned(algorithm.build(c, rank, parameters), algorithm.build(c, rank + turn, parameters),
                  turn, c.ranks);
  return 1;
}

TEST(Turn, ProgramsAreWhatTheyAreSaidToBe) {
  int claims = 0;
  for (const Algorithm& algorithm : catalog())
    for (int k = 0; k < kKinds; ++k)
      for (const int ranks : {1, 2, 3, 4, 5, 6, 7, 8, 12, 16, test::kSanitized ? 17 : 33})
        for (const bool in_place : {false, true})
          for (const int radix : {2, 3, 4})
            claims += check_claim(algorithm, {static_cast<Kind>(k), ranks, 0, in_place}, {radix});
  EXPECT_GT(claims, 600);
}

}  // namespace
}  // namespace weft
