#include "base/process_wide.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/support/child.h"

namespace weft {
namespace {

struct Pair {
  int a = 0;
  int b = 0;
};

// Another thread has it nearly always, and changes it piece by piece.
TEST(ProcessWide, IsWholeAndFreeInForkedChildren) {
  std::atomic<bool> done{false};
  std::thread busy([&done] {
    while (!done) {
      ProcessWide<Pair> held;
      ++held->a;
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      ++held->b;
    }
  });
  for (int i = 0; i < 20 && !HasFailure(); ++i)
    EXPECT_EQ(test::in_child([] {
                ProcessWide<Pair> held;
                if (held->a != held->b) ::_exit(1);
              }),
              0);
  done = true;
  busy.join();
}

}  // namespace
}  // namespace weft
