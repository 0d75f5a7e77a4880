// What weft-doctor concludes from dumps whose story is known.
#include "tools/diagnosis.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/text.h"

namespace weft {
namespace {

constexpr int64_t kNow = 1'700'000'000'000'000'000;
constexpr int64_t kSecond = 1'000'000'000;

// A rank of `size` that has made `calls` all_reduces, one a second, and is in the last one.
Dump rank_of(Rank rank, int size, uint64_t calls) {
  Dump dump;
  dump.communicator = "c0ffee";
  dump.rank = rank;
  dump.size = size;
  dump.host = "one";
  dump.why = "signal";
  dump.written_ns = kNow;
  for (uint64_t i = 1; i <= calls; ++i) {
    const int64_t begun = kNow - static_cast<int64_t>(calls - i + 1) * kSecond;
    dump.operations.push_back(
        {i, i, "all_reduce(count=4, float32, sum)", "ring/simple", "done", begun, 0});
  }
  if (calls > 0) dump.operations.back().state = "running";
  return dump;
}

std::vector<Dump> job(int size, uint64_t calls) {
  std::vector<Dump> dumps;
  for (Rank rank = 0; rank < size; ++rank) dumps.push_back(rank_of(rank, size, calls));
  return dumps;
}

std::string text_of(const Diagnosis& diagnosis) {
  std::string text;
  for (const Finding& finding : diagnosis.findings) text += finding.text + "\n";
  return text;
}

bool says(const Diagnosis& diagnosis, std::string_view what) {
  return text_of(diagnosis).find(what) != std::string::npos;
}

TEST(Diagnosis, ASoundJobIsSound) {
  const Diagnosis found = diagnose(job(4, 7));
  EXPECT_FALSE(found.wrong);
  EXPECT_TRUE(says(found, "All ranks are in collective call 7, all_reduce(count=4, float32, sum)"))
      << text_of(found);
  EXPECT_TRUE(says(diagnose(job(2, 0)), "Nothing is wrong"));
}

TEST(Diagnosis, NamesWhoIsElsewhere) {
  std::vector<Dump> dumps = job(4, 7);
  dumps[2].operations.pop_back();
  const Diagnosis found = diagnose(dumps);
  EXPECT_TRUE(found.wrong);
  EXPECT_EQ(found.findings.size(), 1u) << text_of(found);
  EXPECT_EQ(found.findings[0].ranks, std::vector<Rank>{2});
  EXPECT_TRUE(
      says(found,
           "Rank 2 is behind: ranks 0, 1 and 3 have come to collective call 7, its last was "
           "collective call 6"))
      << text_of(found);
  EXPECT_TRUE(says(found, "2.000 s before its dump")) << text_of(found);
}

TEST(Diagnosis, AMomentsDifferenceIsNone) {
  std::vector<Dump> dumps = job(2, 7);
  dumps[1] = rank_of(1, 2, 6);
  dumps[0].operations.back().begun_ns = kNow - kSecond / 100;
  EXPECT_FALSE(diagnose(dumps).wrong);
}

TEST(Diagnosis, ShowsWhereCallsDiffer) {
  std::vector<Dump> dumps = job(3, 5);
  dumps[1].operations[3].call = "broadcast(count=4, float32, root=0)";
  dumps[1].operations[4].call = "barrier()";
  const Diagnosis found = diagnose(dumps);
  EXPECT_TRUE(found.wrong);
  EXPECT_TRUE(
      says(found,
           "Collective call 4 is not the same everywhere: all_reduce(count=4, float32, sum) "
           "on ranks 0 and 2; broadcast(count=4, float32, root=0) on rank 1."))
      << text_of(found);
}

TEST(Diagnosis, NamesTheDead) {
  std::vector<Dump> dumps = job(4, 5);
  dumps.erase(dumps.begin() + 1);
  for (Dump& dump : dumps) {
    dump.failure_code = "peer lost";
    dump.failure = "rank 1 died";
    dump.failure_peer = 1;
  }
  const Diagnosis found = diagnose(dumps);
  EXPECT_TRUE(found.wrong);
  EXPECT_EQ(found.here, (std::vector<Rank>{0, 2, 3}));
  EXPECT_TRUE(says(found, "Rank 1 was lost: ranks 0, 2 and 3 say so, and there is no dump of it"))
      << text_of(found);
  EXPECT_FALSE(says(found, "There is no dump of rank 1")) << "it was said already";
}

TEST(Diagnosis, NamesWhoAborted) {
  std::vector<Dump> dumps = job(2, 5);
  dumps[0].failure_code = dumps[1].failure_code = "aborted";
  dumps[1].failure = "rank 1 aborted: the disk is full";
  dumps[0].failure = "rank 1 reported: rank 1 aborted: the disk is full";
  const Diagnosis found = diagnose(dumps);
  EXPECT_TRUE(says(found, "Rank 1 ended the job itself: rank 1 aborted: the disk is full."))
      << text_of(found);
  EXPECT_FALSE(says(found, "Rank 0 ended")) << text_of(found);
}

// Whatever the failure is, the job is not well, and who found it comes before whom it was told.
TEST(Diagnosis, TellsOfEveryFailure) {
  for (const char* code : {"timeout", "system", "corrupt", "internal", "of a later version"}) {
    std::vector<Dump> dumps = job(2, 5);
    dumps[0].failure_code = dumps[1].failure_code = code;
    dumps[0].failure = "rank 1 reported: no space";
    dumps[1].failure = "no space";
    const Diagnosis found = diagnose(dumps);
    EXPECT_TRUE(found.wrong) << code;
    EXPECT_EQ(found.findings[0].text, concat("Rank 1 failed (", code, "): no space."));
    EXPECT_FALSE(says(found, "Rank 0 failed")) << text_of(found);
    EXPECT_FALSE(says(found, "has failed")) << text_of(found);
    dumps.pop_back();
    EXPECT_TRUE(says(diagnose(dumps), "Rank 0 failed")) << "all that is known";
  }
  std::vector<Dump> dumps = job(2, 5);
  dumps[1].failure_code = "peer lost";
  dumps[1].failure = "the connection broke";
  EXPECT_TRUE(says(diagnose(dumps), "Rank 1 failed (peer lost): the connection broke."));
}

TEST(Diagnosis, TellsOfACallThatFailed) {
  std::vector<Dump> dumps = job(2, 5);
  dumps[1].operations[4].state = "failed";
  const Diagnosis found = diagnose(dumps);
  EXPECT_TRUE(found.wrong);
  EXPECT_TRUE(says(found, "Rank 1's all_reduce(count=4, float32, sum) failed.")) << text_of(found);
}

TEST(Diagnosis, CountsMissingDumps) {
  std::vector<Dump> dumps = job(4, 5);
  dumps.resize(2);
  const Diagnosis found = diagnose(dumps);
  EXPECT_TRUE(found.wrong);
  EXPECT_TRUE(says(found, "There is no dump of ranks 2 and 3")) << text_of(found);
}

TEST(Diagnosis, ShowsWhoComesLate) {
  std::vector<Dump> dumps = job(3, 10);
  for (Dump::Operation& operation : dumps[2].operations) operation.begun_ns += kSecond / 10;
  const Diagnosis found = diagnose(dumps);
  EXPECT_FALSE(found.wrong) << "slow is not broken";
  EXPECT_TRUE(says(found,
                   "Rank 2 came last to 10 of the last 10 collective calls, and cost the others "
                   "1.000 s in all"))
      << text_of(found);
  std::vector<Dump> centuries = job(3, 10);  // together more than fit a number of nanoseconds
  for (Dump::Operation& operation : centuries[2].operations) operation.begun_ns += int64_t{1} << 62;
  EXPECT_TRUE(says(diagnose(centuries), "Rank 2 came last to 10")) << text_of(diagnose(centuries));
  dumps[1].host = "another, whose clock differs";
  EXPECT_FALSE(says(diagnose(dumps), "came last"));
}

}  // namespace
}  // namespace weft
