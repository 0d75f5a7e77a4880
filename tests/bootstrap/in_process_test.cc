// Ranks that are threads of one process.
#include <gtest/gtest.h>

#include <atomic>

#include "base/text.h"
#include "tests/bootstrap/ranks.h"
#include "tests/support/contains.h"

namespace weft {
namespace {

using test::describe;

using test::contains;

TEST(InProcess, ManyMeetingsInARow) {
  for (const int size : {1, 2, 3, 8}) {
    auto ends = make_in_process_rendezvous(size);
    const auto said = test::run(test::Mode::threads, size, [&](Rank r) {
      auto& end = ends[static_cast<size_t>(r)];
      EXPECT_EQ(end->rank(), r);
      EXPECT_EQ(end->size(), size);
      for (int round = 0; round < 200; ++round) {
        const auto table = end->all_gather(concat(r, ".", round), Deadline::after(20));
        if (describe(table) != test::expected_table(size, round)) return describe(table);
      }
      return std::string("done");
    });
    for (const std::string& text : said) EXPECT_EQ(text, "done");
  }
}

TEST(InProcess, AThreadThatNeverComesIsNamedToAll) {
  auto ends = make_in_process_rendezvous(4);
  const auto said = test::run(test::Mode::threads, 4, [&](Rank r) -> std::string {
    if (r == 1 || r == 3) return "";
    return describe(ends[static_cast<size_t>(r)]->all_gather("x", Deadline::after(r ? 20 : 0.1)));
  });
  for (const size_t r : {0, 2}) {
    EXPECT_TRUE(contains(said[r], "timeout: Not all threads came")) << said[r];
    EXPECT_TRUE(contains(said[r], "missing of 4: 1, 3.")) << said[r];
    EXPECT_TRUE(contains(said[r], "[peer 1]")) << said[r];
  }
  EXPECT_FALSE(ends[1]->all_gather("x", Deadline::after(1)).ok());
}

TEST(InProcess, ACancelledThreadEndsAll) {
  auto ends = make_in_process_rendezvous(3);
  std::atomic<bool> cancelled{false};
  const auto said = test::run(test::Mode::threads, 3, [&](Rank r) -> std::string {
    if (r == 2) {
      cancelled = true;
      return "";
    }
    const Deadline deadline = Deadline::after(60);
    return describe(ends[static_cast<size_t>(r)]->all_gather(
        "x", r == 1 ? deadline.unless(cancelled) : deadline));
  });
  for (const size_t r : {0, 1})
    EXPECT_TRUE(contains(said[r], "aborted: Rank 1 aborted")) << said[r];
}

TEST(InProcess, AThreadThatLeavesIsNamedToAll) {
  auto ends = make_in_process_rendezvous(3);
  const auto said = test::run(test::Mode::threads, 3, [&](Rank r) -> std::string {
    auto& end = ends[static_cast<size_t>(r)];
    if (!end->all_gather("x", Deadline::after(20)).ok()) return "failed";
    if (r == 2) {
      end.reset();
      return "";
    }
    return describe(end->all_gather("x", Deadline::after(20)));
  });
  for (const size_t r : {0, 1})
    EXPECT_TRUE(contains(said[r], "peer lost: Rank 2 (a thread) left")) << said[r];
}

}  // namespace
}  // namespace weft
