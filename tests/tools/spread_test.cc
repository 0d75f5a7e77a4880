// Work on several threads is all done, each part once, however many threads there are.
#include "tools/spread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/support/thread_limit.h"

namespace weft {
namespace {

TEST(Spread, DoesEachPartOnce) {
  for (const int threads : {1, 2, 5, 40}) {
    std::vector<std::atomic<int>> done(20);
    spread(20, threads, [&](int i) { ++done[static_cast<size_t>(i)]; });
    for (const std::atomic<int>& times : done) EXPECT_EQ(times, 1) << threads;
  }
  spread(0, 4, [](int) { ADD_FAILURE(); });
}

TEST(Spread, MakesDoWithTheThreadsThereAre) {
  const test::ThreadLimit none(0);
  if (!none.holds()) GTEST_SKIP() << "the limit on threads does not hold here";
  std::vector<std::thread::id> by(8);
  spread(8, 4, [&](int i) { by[static_cast<size_t>(i)] = std::this_thread::get_id(); });
  for (const std::thread::id& id : by) EXPECT_EQ(id, std::this_thread::get_id());
}

}  // namespace
}  // namespace weft
