#include "engine/notes.h"

#include <gtest/gtest.h>

#include <string>

namespace weft {
namespace {

Status waited_for(Rank peer) { return Status(Code::timeout, "waited", peer); }

TEST(FailureNote, SaysWhatWasWritten) {
  const auto status = parse_failure_note(failure_note(Status(Code::timeout, "it is late", 3), 2));
  ASSERT_TRUE(status.has_value());
  EXPECT_EQ(status->code(), Code::timeout);
  EXPECT_EQ(status->peer(), 3);
  EXPECT_EQ(status->message(), "rank 2 reported: it is late");
}

TEST(FailureNote, OthersAreNone) {
  for (const char* text : {"", "failed", "failed 1 2", "failed 0 1 2 x", "failed 99 1 2 x",
                           "in-call 1 2 x", "failed x 1 2 y"})
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
  EXPECT_EQ(culprit.word, &words.at(2));
}

TEST(Culprit, IsNotSoughtInACircle) {
  const Words words{{1, waited_for(2)}, {2, waited_for(1)}, {3, waited_for(0)}};
  EXPECT_EQ(find_culprit({1}, words, 0).rank, -1);
  EXPECT_EQ(find_culprit({3}, words, 0).rank, -1);  // who waited for this rank does not blame it
  EXPECT_EQ(find_culprit({}, words, 0).rank, -1);
}

TEST(Culprit, IsFoundBehindAnyOfThem) {
  const Words words{{1, waited_for(-1)}, {2, waited_for(4)}};
  EXPECT_EQ(find_culprit({1, 2}, words, 0).rank, 4);
}

}  // namespace
}  // namespace weft
