// Threads that the system refuses are failures, not the end of the process.
#include "base/thread.h"

#include <gtest/gtest.h>

#include <atomic>

#include "tests/support/thread_limit.h"

namespace weft {
namespace {

using test::ThreadLimit;

TEST(Thread, Runs) {
  int done = 0;
  start_thread([&done] { done = 1; })->join();
  EXPECT_EQ(done, 1);
  std::atomic<size_t> sum{0};
  auto threads = start_threads(4, [&sum](size_t i) { sum += 1 + i; });
  ASSERT_TRUE(threads.ok());
  for (std::thread& thread : *threads) thread.join();
  EXPECT_EQ(sum, 10u);
  EXPECT_TRUE(start_threads(0, nullptr)->empty());
}

TEST(Thread, ThatTheSystemRefusesIsAFailure) {
  const ThreadLimit none(0);
  if (!none.holds()) GTEST_SKIP() << "the limit on threads does not hold here";
  const auto thread = start_thread([] {});
  ASSERT_EQ(thread.status().code(), Code::system);
  EXPECT_NE(thread.status().message().find("ulimit -u"), std::string_view::npos);
}

TEST(Thread, AllOrNone) {
  const ThreadLimit two(2);
  if (!two.holds()) GTEST_SKIP() << "this limit needs root";
  std::atomic<int> ran{0};
  const auto count = [&ran](size_t) { ++ran; };
  auto threads = start_threads(2, count);
  ASSERT_TRUE(threads.ok()) << threads.status().to_string();
  for (std::thread& thread : *threads) thread.join();
  EXPECT_EQ(ran, 2);
  EXPECT_EQ(start_threads(3, count).status().code(), Code::system);
  EXPECT_EQ(ran, 2);
}

}  // namespace
}  // namespace weft
