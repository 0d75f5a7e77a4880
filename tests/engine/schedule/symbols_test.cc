// The parts of the symbolic run.
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "engine/schedule/verify_clock.h"
#include "engine/schedule/verify_expression.h"
#include "engine/schedule/verify_memory.h"

namespace weft::symbolic {
namespace {

TEST(Expressions, EqualOnesHaveEqualIds) {
  Expressions e(3);
  const Value a = e.leaf(0, {4, 0, 0}), b = e.leaf(1, {4, 0, 0}), c = e.leaf(2, {4, 0, 0});
  EXPECT_EQ(e.leaf(0, {4, 0, 0}), a);
  EXPECT_NE(e.leaf(0, {4, 1, 0}), a);
  EXPECT_NE(e.leaf(0, {4, 0, 1}), a);
  const auto fold = [&](std::vector<Value> operands) { return e.fold(operands); };
  EXPECT_EQ(fold({a, b, c}), fold({b, a, c}));
  EXPECT_NE(fold({a, b, c}), fold({a, c, b}));
  EXPECT_NE(fold({a, b, c}), fold({fold({a, b}), c}));
  EXPECT_EQ(fold({fold({a, b}), c}), fold({c, fold({b, a})}));
  EXPECT_EQ(fold({a}), a);
  EXPECT_EQ(e.finish(a), e.finish(a));
  EXPECT_NE(e.finish(a), a);
  EXPECT_EQ(e.text(e.finish(fold({a, b}))), "finish(fold(in 0, in 1))");
}

TEST(Expressions, KnowWhoseInputsTheyHold) {
  Expressions e(70);
  std::vector<Value> leaves;
  for (Rank r = 0; r < 70; ++r) leaves.push_back(e.leaf(r, {}));
  EXPECT_EQ(e.missing(e.fold(leaves)), -1);
  EXPECT_EQ(e.folded_twice(leaves), -1);
  const Value almost = e.fold(std::vector<Value>(leaves.begin(), leaves.end() - 2));
  EXPECT_EQ(e.missing(almost), 68);
  EXPECT_EQ(e.folded_twice(std::vector<Value>{almost, leaves[66]}), 66);
}

TEST(Expressions, StayDistinctWhenTheyAreMany) {
  Expressions e(2);
  std::set<Value> all;
  for (int chunk = 0; chunk < 20000; ++chunk) all.insert(e.leaf(chunk % 2, {chunk, chunk % 7, 0}));
  EXPECT_EQ(all.size(), 20000u);
  for (int chunk = 0; chunk < 20000; ++chunk)
    EXPECT_TRUE(all.contains(e.leaf(chunk % 2, {chunk, chunk % 7, 0})));
}

TEST(Clocks, KnowWhatSnapshotsTold) {
  Clocks clocks(3);
  clocks.tick(0);
  Snapshot first = clocks.take(0);
  EXPECT_FALSE(clocks.knows(1, 0, 1));
  clocks.merge(1, first);
  EXPECT_TRUE(clocks.knows(1, 0, 1));
  EXPECT_FALSE(clocks.knows(1, 0, 2));
  clocks.tick(1);
  Snapshot second = clocks.take(1);
  clocks.merge(2, second);  // from 0 over 1
  EXPECT_TRUE(clocks.knows(2, 0, 1));
  EXPECT_TRUE(clocks.knows(2, 1, 1));
  clocks.drop(first);
  clocks.drop(second);
  EXPECT_EQ(first.lane, -1);
}

TEST(Clocks, OldSnapshotsStayAsTheyWere) {
  Clocks clocks(3);
  clocks.tick(1);
  Snapshot before = clocks.take(1);
  clocks.tick(0);
  Snapshot news = clocks.take(0);
  clocks.merge(1, news);
  clocks.merge(2, before);
  EXPECT_TRUE(clocks.knows(2, 1, 1));
  EXPECT_FALSE(clocks.knows(2, 0, 1));
}

TEST(Memory, FindsUnorderedAccesses) {
  Clocks clocks(2);
  Memory memory(clocks);
  const int cell = memory.add(1);
  clocks.tick(0);
  clocks.tick(1);
  EXPECT_EQ(memory.write(cell, 0, 5).lane, -1);
  EXPECT_EQ(memory.read(cell, 1).lane, 0);
  Snapshot told = clocks.take(0);
  clocks.merge(1, told);
  EXPECT_EQ(memory.read(cell, 1).lane, -1);
  EXPECT_EQ(memory.value(cell), 5);
  clocks.tick(0);
  EXPECT_EQ(memory.write(cell, 0, 6).lane, 1) << "the reader may still be reading";
  Snapshot done = clocks.take(1);
  clocks.merge(0, done);
  EXPECT_EQ(memory.write(cell, 0, 6).lane, -1);
}

TEST(Memory, RemembersEveryReader) {
  Clocks clocks(4);
  Memory memory(clocks);
  const int cell = memory.add(1);
  for (int lane = 1; lane < 4; ++lane) {
    clocks.tick(lane);
    EXPECT_EQ(memory.read(cell, lane).lane, -1);
  }
  clocks.tick(0);
  for (int lane = 1; lane < 4; ++lane) {
    EXPECT_GE(memory.write(cell, 0, 1).lane, lane);
    Snapshot done = clocks.take(lane);
    if (lane != 2) clocks.merge(0, done);
  }
  EXPECT_EQ(memory.write(cell, 0, 1).lane, 2);
}

}  // namespace
}  // namespace weft::symbolic
