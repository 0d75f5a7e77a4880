// A rank that has no memory for a call says so, and the others hear it from that rank.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "tests/support/child.h"
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

double now_s() { return static_cast<double>(steady_clock().now_ns()) * 1e-9; }

// Without a call.
void meet(std::atomic<int>& here, int all) {
  ++here;
  for (const Deadline end = Deadline::after(20); here < all && !end.expired();) ::usleep(1000);
}

// All ranks make calls for which rank 1 has no memory; each gets an error of that rank that says
// so.
void expect_shortage(size_t count, size_t slot_bytes, size_t chunk_bytes, const std::string& what) {
  if (kSanitized) GTEST_SKIP() << "sanitizers need all the address space there is";
  Cluster cluster;
  cluster.ranks = 4;
  cluster.mode = Mode::processes;
  cluster.options.transport = "tcp";
  cluster.options.algorithm = "recursive_doubling";
  cluster.options.chunk_bytes = chunk_bytes;
  cluster.options.lanes = static_cast<int>(count * sizeof(int32_t) / chunk_bytes);  // all at once
  cluster.options.slot_bytes = slot_bytes;
  cluster.options.slots = 8;
  auto& here = shared_value<std::atomic<int>>();
  run_ranks(cluster, [&](Communicator& communicator) {
    const std::vector<int32_t> in(kCount, 1);
    std::vector<int32_t> out(kCount);
    const auto call = [&](size_t elements) {
      return communicator.all_reduce(in.data(), out.data(), elements, DataType::int32,
                                     ReduceOp::sum);
    };
    ASSERT_TRUE(call(1).ok());
    meet(here, cluster.ranks);  // so that rank 1 is connected to those that it will tell
    if (communicator.rank() == 1) {
      take_memory_away();
      ::usleep(200'000);  // by then a message of every lane is there
    }
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
  expect_shortage(kCount, kBytes / 4, kBytes, "what the call holds on its way, 16777216 bytes");
}

TEST(Shortage, OfMemoryForMessagesIsToldToAllRanks) {
  expect_shortage(8 * 2048, 4 * kBytes, 8192, "a message of link ");  // none is short
}

template <size_t kBytes>
struct Block {
  Block* next;
  std::byte rest[kBytes - sizeof(Block*)];
};

// Leaves the process nothing but small blocks, with others between them.
void leave_small_blocks() {
  using Block = Block<2048>;
  Block* all = nullptr;
  const auto take = [&all] {
    auto* const block = static_cast<Block*>(std::malloc(sizeof(Block)));
    if (block) block->next = all, all = block;
    return block != nullptr;
  };
  for (int i = 0; i < 2000; ++i) take();
  const rlimit none{1, RLIM_INFINITY};
  ::setrlimit(RLIMIT_AS, &none);
  while (take()) {
  }
  for (Block* block = all; block && block->next; block = block->next) {
    Block* const freed = block->next;
    block->next = freed->next;
    std::free(freed);
  }
}

// One that cannot talk to the others any more does not keep them waiting.
TEST(Shortage, LeavesTheOthersToGoOn) {
  if (kSanitized) GTEST_SKIP() << "sanitizers need all the address space there is";
  Cluster cluster;
  cluster.ranks = 4;
  cluster.mode = Mode::processes;
  cluster.options.transport = "tcp";
  auto& here = shared_value<std::atomic<int>>();
  run_ranks(cluster, [&](Communicator& communicator) {
    const auto call = [](Communicator& among) {
      int one = 1, sum = 0;
      const Status status = among.all_reduce(&one, &sum, 1, DataType::int32, ReduceOp::sum);
      return status.ok() && sum != among.size() ? internal_error("wrong") : status;
    };
    ASSERT_TRUE(call(communicator).ok());
    meet(here, cluster.ranks);
    if (communicator.rank() == 1) leave_small_blocks();
    Status status;
    while (status.ok()) status = call(communicator);
    EXPECT_EQ(status.code(), Code::system) << status.to_string();
    EXPECT_EQ(status.peer(), 1) << status.to_string();
    const double began = now_s();
    auto smaller = communicator.shrink();
    if (communicator.rank() == 1) {
      EXPECT_EQ(smaller.status().code(), Code::system) << smaller.status().to_string();
      return;
    }
    ASSERT_TRUE(smaller.ok()) << smaller.status().to_string();
    EXPECT_LT(now_s() - began, 15);
    EXPECT_EQ((*smaller)->size(), 3);
    EXPECT_TRUE(call(**smaller).ok());
  });
}

// Without any; given back at the end.
class Nothing {
 public:
  Nothing() {
    set_limit(1);
    take<1024>();
    take<16>();
  }
  ~Nothing() {
    set_limit(RLIM_INFINITY);
    while (taken_) std::free(std::exchange(taken_, taken_->next));
  }
  Nothing(const Nothing&) = delete;
  Nothing& operator=(const Nothing&) = delete;

 private:
  static void set_limit(rlim_t bytes) {
    const rlimit limit{bytes, RLIM_INFINITY};
    ::setrlimit(RLIMIT_AS, &limit);
  }
  template <size_t kBytes>
  void take() {
    while (auto* block = static_cast<Block<16>*>(std::malloc(kBytes))) {
      block->next = taken_;
      taken_ = block;
    }
  }
  Block<16>* taken_ = nullptr;
};

// Whatever it is that there is no memory for. `make` makes a call of so many elements.
void expect_an_end(const std::function<Status(Communicator&, size_t)>& make) {
  if (kSanitized) GTEST_SKIP() << "sanitizers need all the address space there is";
  for (const char* transport : {"tcp", "shm"}) {
    Cluster cluster;
    cluster.ranks = 3;
    cluster.mode = Mode::processes;
    cluster.options.transport = transport;
    auto& here = shared_value<std::atomic<int>>();
    run_ranks(cluster, [&](Communicator& communicator) {
      ASSERT_TRUE(make(communicator, 1).ok());
      meet(here, cluster.ranks);
      Status status;
      {
        std::optional<Nothing> nothing;
        if (communicator.rank() == 1) nothing.emplace();
        for (size_t count = 2; status.ok(); ++count) status = make(communicator, count);
      }
      if (communicator.rank() == 1) {
        EXPECT_EQ(status.code(), Code::system) << status.to_string();
        EXPECT_TRUE(status.message().find("Cannot allocate memory") != std::string_view::npos)
            << status.to_string();
        EXPECT_EQ(communicator.health().code(), Code::system);
      }
      EXPECT_EQ(status.peer(), 1) << status.to_string();
    });
  }
}

TEST(Shortage, OfAnythingEndsABlockingCall) {
  expect_an_end([](Communicator& communicator, size_t count) {
    static int32_t in[100'000] = {}, out[100'000];
    return communicator.all_reduce(in, out, count, DataType::int32, ReduceOp::sum);
  });
}

TEST(Shortage, OfAnythingEndsAnAsynchronousCall) {
  expect_an_end([](Communicator& communicator, size_t count) {
    static int32_t in[100'000] = {}, out[100'000];
    return communicator
        .start({.kind = Kind::all_reduce,
                .input = in,
                .output = out,
                .count = count,
                .type = DataType::int32,
                .op = ReduceOp::sum})
        .wait();
  });
}

// A stack cannot grow where there is no memory, and is to be none of what is missing.
void grow_stack() {
  volatile std::byte deep[256 << 10];
  for (size_t i = 0; i < sizeof deep; i += 1024) deep[i] = {};
}

// However much is left: a communicator is made, or there is no memory for that.
TEST(Shortage, OfAnythingEndsTheMakingOfACommunicator) {
  if (kSanitized) GTEST_SKIP() << "sanitizers need all the address space there is";
  constexpr size_t kBlocks = 4000, kStep = 16;  // of a KiB
  int made = 0, refused = 0;
  for (size_t left = 0; left < kBlocks && made < 3; left += kStep) {
    const int end = in_child([&] {
      const auto meetings = make_in_process_rendezvous(1);
      std::vector<std::unique_ptr<std::byte[]>> blocks(kBlocks);
      for (auto& block : blocks) block = std::make_unique<std::byte[]>(1000);
      grow_stack();
      const Options options;
      Nothing nothing;
      blocks.resize(kBlocks - left);
      const auto communicator = Communicator::create(*meetings[0], options);
      ::_exit(communicator.ok() ? 1 : communicator.status().code() == Code::system ? 2 : 3);
    });
    ASSERT_TRUE(WIFEXITED(end)) << "signal " << WTERMSIG(end) << " with " << left << " KiB";
    ASSERT_NE(WEXITSTATUS(end), 3) << left;
    ++(WEXITSTATUS(end) == 1 ? made : refused);
  }
  EXPECT_GT(made, 0);
  EXPECT_GT(refused, 0);
}

// However much is left: nobody waits for a rank that cannot go on making a part.
TEST(Shortage, OfAnythingIsToldWhereACommunicatorIsSplit) {
  if (kSanitized) GTEST_SKIP() << "sanitizers need all the address space there is";
  for (size_t left = 0; left < 1000; left += left < 500 ? 100 : 20) {  // KiB
    Cluster cluster;
    cluster.ranks = 3;
    cluster.mode = Mode::processes;
    cluster.options.transport = "tcp";
    auto& here = shared_value<std::atomic<int>>();
    run_ranks(cluster, [&](Communicator& communicator) {
      int one = 1, sum = 0;
      ASSERT_TRUE(communicator.all_reduce(&one, &sum, 1, DataType::int32, ReduceOp::sum).ok());
      std::vector<std::unique_ptr<std::byte[]>> blocks(communicator.rank() == 1 ? left : 0);
      for (auto& block : blocks) block = std::make_unique<std::byte[]>(1000);
      grow_stack();
      meet(here, cluster.ranks);
      const double began = now_s();
      Status status;
      {
        std::optional<Nothing> nothing;
        if (communicator.rank() == 1) nothing.emplace();
        blocks.clear();
        status = communicator.split(0, communicator.rank()).status();
      }
      EXPECT_LT(now_s() - began, 15) << left;
      EXPECT_TRUE(status.ok() || status.peer() == 1) << left << ": " << status.to_string();
      EXPECT_TRUE(status.ok() || status.message().find("Cannot allocate") != std::string_view::npos)
          << left << ": " << status.to_string();
      EXPECT_FALSE(status.ok() && left == 0);
      meet(here, 2 * cluster.ranks);
    });
  }
}

// One that is asked by a signal what it does cannot say it, and goes on.
TEST(Shortage, OfAnythingLeavesOutADump) {
  if (kSanitized) GTEST_SKIP() << "sanitizers need all the address space there is";
  EXPECT_EQ(in_child([] {
              const auto meetings = make_in_process_rendezvous(1);
              Options options;
              options.dump = testing::TempDir();
              const auto communicator = Communicator::create(*meetings[0], options);
              WEFT_CHECK(communicator.ok());
              grow_stack();
              Nothing nothing;
              ::kill(::getpid(), SIGUSR1);
              ::usleep(300'000);
            }),
            0);
}

}  // namespace
}  // namespace weft::test
