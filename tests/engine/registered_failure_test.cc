// Calls on memory that the communicator allocated, when ranks are late, die or give up.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>

#include "tests/support/cluster.h"
#include "tests/support/sanitized.h"
#include "tests/support/shared_value.h"

namespace weft::test {
namespace {

void wait_for(const std::atomic<int>& value, int wanted) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (value.load() < wanted && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ASSERT_GE(value.load(), wanted);
}

constexpr size_t kMany = 4 << 20;  // elements whose reduction takes milliseconds

// Rank `stopped` is stopped somewhere in a call, for longer than the other's patience. What that
// one does with its memory after its call has failed is its own affair: the late rank writes none
// of it, and what it calls a result is one.
TEST(RegisteredFailure, LateRanksLeaveMemoryAloneAndSeeNoneOfIt) {
  struct Shared {
    std::atomic<int> pid{0}, failed{0}, changed{0}, ended{0};
  };
  for (int round = 0; round < (kSanitized ? 2 : 6); ++round) {
    auto& shared = shared_value<Shared>();
    Cluster cluster{.ranks = 2, .mode = Mode::processes, .options = {}, .hosts = {}};
    cluster.options.transport = "shm";
    cluster.options.timeout_s = 0.4;
    run_ranks(cluster, [&](Communicator& c) {
      auto in = c.allocate(kMany * sizeof(int32_t)), out = c.allocate(kMany * sizeof(int32_t));
      ASSERT_TRUE(in.ok() && out.ok());
      auto* from = reinterpret_cast<int32_t*>(in->get());
      auto* to = reinterpret_cast<int32_t*>(out->get());
      for (size_t i = 0; i < kMany; ++i) from[i] = static_cast<int32_t>(i) + c.rank();
      std::jthread stopper;
      if (c.rank() == 1) {
        shared.pid = ::getpid();
        stopper = std::jthread([&] {
          std::this_thread::sleep_for(std::chrono::microseconds(500 + 700 * round));
          ::raise(SIGSTOP);
        });
      }
      Status status;
      for (int call = 0; call < 1000 && status.ok(); ++call) {
        status = c.all_reduce(from, to, kMany, DataType::int32, ReduceOp::sum);
        for (size_t i = 0; status.ok() && i < kMany; ++i)
          ASSERT_EQ(to[i], 2 * static_cast<int32_t>(i) + 1) << "in a call that is said to be well";
      }
      EXPECT_FALSE(status.ok());
      if (c.rank() == 1) {
        stopper.join();
        shared.ended = 1;
        return;
      }
      for (size_t i = 0; i < kMany; ++i) to[i] = -7, from[i] = -8;
      shared.failed = 1;
      ::kill(shared.pid.load(), SIGCONT);
      wait_for(shared.ended, 1);
      for (size_t i = 0; i < kMany; ++i) {
        ASSERT_EQ(to[i], -7) << "a late rank wrote element " << i;
        ASSERT_EQ(from[i], -8);
      }
    });
  }
}

size_t anonymous_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (size_t kib = 0; word == "RssAnon:" && status >> kib) return kib << 10;
  return 0;
}

// Buffers of calls that have ended well are nobody's but the caller's: a later failure does not
// copy them.
TEST(RegisteredFailure, LeavesTheBuffersOfEarlierCallsAsTheyAre) {
  if (kSanitized) GTEST_SKIP() << "sanitizers have memory of their own";
  Cluster cluster{.ranks = 2, .mode = Mode::processes, .options = {}, .hosts = {}};
  cluster.options.transport = "shm";
  run_bare_ranks(cluster, [&](Rendezvous& meet) {
    auto c = Communicator::create(meet, cluster.options).take();
    constexpr size_t kBytes = 64 << 20;
    const auto in = c->allocate(kBytes).take(), out = c->allocate(kBytes).take();
    ASSERT_TRUE(
        c->all_reduce(in.get(), out.get(), kBytes / 4, DataType::int32, ReduceOp::sum).ok());
    ASSERT_TRUE(c->barrier().ok());
    if (c->rank() == 1) return;  // and its communicator goes
    const size_t before = anonymous_bytes();
    EXPECT_EQ(c->barrier().code(), Code::peer_lost);
    EXPECT_LT(anonymous_bytes(), before + kBytes / 4);
  });
}

TEST(RegisteredFailure, ADeathEndsTheCallsOfTheOthers) {
  for (int round = 0; round < (kSanitized ? 2 : 5); ++round) {
    auto& deaths = shared_value<std::atomic<int>>();
    Cluster cluster{.ranks = 3, .mode = Mode::processes, .options = {}, .hosts = {}};
    cluster.options.transport = "shm";
    run_bare_ranks(cluster, [&](Rendezvous& meet) {
      if (meet.rank() == 2) {
        // The test's process must not die, so a child of it is the rank.
        const pid_t rank = ::fork();
        if (rank > 0) {
          int status = 0;
          ::waitpid(rank, &status, 0);
          EXPECT_TRUE(WIFSIGNALED(status));
          deaths = 1;
          return;
        }
      }
      auto made = Communicator::create(meet, cluster.options);
      ASSERT_TRUE(made.ok()) << made.status().to_string();
      Communicator& c = **made;
      auto memory = c.allocate(kMany * sizeof(float));
      ASSERT_TRUE(memory.ok());
      auto* values = reinterpret_cast<float*>(memory->get());
      std::jthread killer;
      if (c.rank() == 2)
        killer = std::jthread([&] {
          std::this_thread::sleep_for(std::chrono::microseconds(3000 + 1100 * round));
          ::kill(::getpid(), SIGKILL);
        });
      Status status;
      while (status.ok())
        status = c.all_reduce(values, values, kMany, DataType::float32, ReduceOp::sum);
      EXPECT_EQ(status.code(), Code::peer_lost) << status.to_string();
      std::memset(memory->get(), 1, kMany * sizeof(float));  // whose it is
      auto left = c.shrink();
      ASSERT_TRUE(left.ok()) << left.status().to_string();
      auto again = (*left)->allocate(1 << 20);
      ASSERT_TRUE(again.ok()) << again.status().to_string();
      // The failed communicator's memory is as any other to the new one.
      for (std::byte* memory_of : {again->get(), memory->get()}) {
        auto* part = reinterpret_cast<int32_t*>(memory_of);
        for (int i = 0; i < 100'000; ++i) part[i] = i;
        ASSERT_TRUE((*left)->all_reduce(part, part, 100'000, DataType::int32, ReduceOp::sum).ok());
        for (int i = 0; i < 100'000; ++i) ASSERT_EQ(part[i], 2 * i);
      }
    });
  }
}

TEST(RegisteredFailure, AnAbortEndsTheCallsOfAll) {
  for (const Mode mode : {Mode::threads, Mode::processes}) {
    Cluster cluster{.ranks = 3, .mode = mode, .options = {}, .hosts = {}};
    cluster.options.transport = "shm";
    run_ranks(cluster, [](Communicator& c) {
      auto memory = c.allocate(kMany * sizeof(int32_t));
      ASSERT_TRUE(memory.ok());
      auto* values = reinterpret_cast<int32_t*>(memory->get());
      std::jthread aborter;
      if (c.rank() == 1)
        aborter = std::jthread([&] {
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
          c.abort("enough");
        });
      Status status;
      while (status.ok())
        status = c.all_reduce(values, values, kMany, DataType::int32, ReduceOp::sum);
      EXPECT_EQ(status.code(), Code::aborted) << status.to_string();
      for (size_t i = 0; i < kMany; ++i) values[i] = c.rank();
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      for (size_t i = 0; i < kMany; ++i) ASSERT_EQ(values[i], c.rank());
      EXPECT_FALSE(c.allocate(10).ok());
    });
  }
}

}  // namespace
}  // namespace weft::test
