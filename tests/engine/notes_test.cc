#include "engine/notes.h"

#include <gtest/gtest.h>

#include <string>

namespace weft {
namespace {

Word waited_for(Rank peer, std::vector<Rank> more = {}) {
  return {Status(Code::timeout, "waited", peer), std::move(more)};
}

TEST(FailureNote, SaysWhatWasWritten) {
  for (const std::vector<Rank>& more : {std::vector<Rank>{}, {5}, {3, 0}}) {
    const Word said{Status(Code::timeout, "it is late", 3), more};
    const auto word = parse_failure_note(failure_note(said, 2));
    ASSERT_TRUE(word.has_value());
    EXPECT_EQ(word->status.code(), Code::timeout);
    EXPECT_EQ(word->status.peer(), 3);
    EXPECT_EQ(word->status.message(), "rank 2 reported: it is late");
    EXPECT_EQ(word->waited_for, more);
  }
}

TEST(FailureNote, OthersAreNone) {
  for (const char* text : {"", "failed", "failed 1 2", "failed 0 1 2 x", "failed 99 1 2 x",
                           "in-call 1 2 x", "failed x 1 2 y", "failed 1 1, 2 y", "failed 1 ,1 2 y"})
    EXPECT_FALSE(parse_failure_note(text).has_value()) << text;
}

TEST(Culprit, IsWhoWasWaitedForAndSaysNothing) {
  const Culprit culprit = find_culprit({3}, {}, 0);
  EXPECT_EQ(culprit.rank, 3);
  EXPECT_EQ(culprit.word, nullptr);
}

TEST(Culprit, IsTheEndOfAChain) {
  const Words words{{1, waited_for(2)}, {2, waited_for(3)}, {5, waited_for(6)}};
  const Culprit culprit = find_culprit({1}, words, 0);
  EXPECT_EQ(culprit.rank, 3);
  EXPECT_EQ(culprit.word, &words.at(2).status);
  EXPECT_FALSE(culprit.circle);
}

TEST(Culprit, IsAnyThatARankWaitedFor) {
  const Words words{{1, waited_for(0, {0, 2})}, {2, waited_for(1, {4})}};
  EXPECT_EQ(find_culprit({1}, words, 0).rank, 4);
}

TEST(Culprit, IsNotSoughtInACircle) {
  const Words words{{1, waited_for(2)}, {2, waited_for(1)}, {3, waited_for(0)}};
  for (const Rank first : {1, 3}) {  // who waited for this rank does not blame it
    EXPECT_EQ(find_culprit({first}, words, 0).rank, -1);
    EXPECT_TRUE(find_culprit({first}, words, 0).circle);
  }
  EXPECT_EQ(find_culprit({}, words, 0).rank, -1);
  EXPECT_FALSE(find_culprit({}, words, 0).circle);
}

// Who was busy may be waited for by those that it waited for when it heard of it, for a moment: a
// circle that is none.
TEST(Culprit, IsWhoWasBusy) {
  const Word busy = waited_for(-1);
  const Words words{{1, busy}};
  const Culprit culprit = find_culprit({1}, words, 0);
  EXPECT_EQ(culprit.rank, 1);
  EXPECT_TRUE(culprit.busy);
  EXPECT_FALSE(culprit.circle);
  EXPECT_EQ(find_culprit({1}, {{1, waited_for(2)}, {2, busy}}, 0).rank, 2);
  EXPECT_EQ(find_culprit({1, 2}, words, 0).rank, 2) << "says nothing at all";
}

// What a rank that was busy finds, which goes from who gave up.
TEST(Culprit, MayBeThisRank) {
  const Word busy = waited_for(-1);
  EXPECT_EQ(find_culprit({0}, {{0, waited_for(1)}, {1, busy}}, 1).rank, 1);
  EXPECT_EQ(find_culprit({0}, {{0, waited_for(1)}, {1, busy}, {2, busy}}, 2).rank, 1);
}

TEST(Culprit, IsFoundBehindAnyOfThem) {
  const Words words{{1, waited_for(-1)}, {2, waited_for(4)}};
  EXPECT_EQ(find_culprit({1, 2}, words, 0).rank, 4);
}

}  // namespace
}  // namespace weft
