// A rank that has no memory for a call says so, and the others hear it from that rank.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <vector>

#include "base/clock.h"
#include "tests/support/cluster.h"
#include "tests/support/sanitized.h"
#include "tests/support/shared_value.h"

namespace weft::test {
namespace {

constexpr size_t kCount = 4 << 20, kBytes = kCount * sizeof(int32_t);

// No more than the process has, and half of a large call.
void take_memory_away() {
  std::ifstream sizes("/proc/self/statm");
  rlim_t pages = 0;
  sizes >> pages;
  const rlimit some{pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + kBytes / 2,
                    RLIM_INFINITY};
  ::setrlimit(RLIMIT_AS, &some);
}

// Without a call.
void meet(std::atomic<int>& here, int all) {
  ++here;
  for (const Deadline end = Deadline::after(20); here < all && !end.expired();) ::usleep(1000);
}

// All ranks make calls for which rank 1 has no memory; each gets an error of that rank that says
// so.
void expect_shortage(size_t count, size_t slot_bytes, const std::string& what) {
  if (kSanitized) GTEST_SKIP() << "sanitizers need all the address space there is";
  Cluster cluster;
  cluster.ranks = 4;
  cluster.mode = Mode::processes;
  cluster.options.transport = "tcp";
  cluster.options.algorithm = "recursive_doubling";
  cluster.options.chunk_bytes = kBytes;
  cluster.options.slot_bytes = slot_bytes;
  auto& here = shared_value<std::atomic<int>>();
  run_ranks(cluster, [&](Communicator& communicator) {
    const std::vector<int32_t> in(kCount, 1);
    std::vector<int32_t> out(kCount);
    const auto call = [&](size_t elements) {
      return communicator.all_reduce(in.data(), out.data(), elements, DataType::int32,
                                     ReduceOp::sum);
    };
    ASSERT_TRUE(call(1000).ok());
    meet(here, cluster.ranks);  // so that rank 1 is connected to those that it will tell
    if (communicator.rank() == 1) take_memory_away();
    for (int i = 0; i < 2; ++i) {
      const Status status = call(count);
      if (status.ok() && i == 0 && communicator.rank() != 1) continue;  // it had all it needed
      EXPECT_EQ(status.code(), Code::system) << status.to_string();
      EXPECT_EQ(status.peer(), 1) << status.to_string();
      EXPECT_NE(status.message().find("on rank 1: Cannot allocate memory for " + what),
                std::string_view::npos)
          << status.to_string();
    }
    meet(here, 2 * cluster.ranks);  // who has heard nothing yet shall not see it leave instead
  });
}

TEST(Shortage, OfScratchMemoryIsToldToAllRanks) {
  expect_shortage(kCount, kBytes / 4, "what the call holds on its way, 16777216 bytes");
}

TEST(Shortage, OfMemoryForMessagesIsToldToAllRanks) {
  expect_shortage(1000, 4 * kBytes, "a message of link 0 with rank ");
}

}  // namespace
}  // namespace weft::test
