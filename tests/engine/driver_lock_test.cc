// Threads of one rank: what one of them blocks in does not keep the others from what takes a
// moment.
#include "engine/driver_lock.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "tests/support/child.h"
#include "tests/support/cluster.h"

namespace weft::test {
namespace {

using testing::Values;

const std::function<bool()> kAtOnce = [] { return true; };

TEST(DriverLocks, VisitorsComeInWhereNobodyDrives) {
  DriverLock lock;
  {
    const Visit visit(lock);
    EXPECT_TRUE(visit.entered());
    EXPECT_FALSE(lock.try_lock());
  }
  ASSERT_TRUE(lock.try_lock());
  EXPECT_FALSE(Visit(lock, kAtOnce).entered());
  EXPECT_FALSE(lock.lock_unless(kAtOnce).owns_lock());
  lock.let_in();  // nobody waits any more
  lock.unlock();
  EXPECT_TRUE(lock.lock_unless(kAtOnce).owns_lock());
}

// The holder neither goes on nor loses the lock while they are in, and one is in at a time.
TEST(DriverLocks, VisitorsComeInOneByOneWhileTheHolderWaits) {
  constexpr int kVisitors = 4, kVisits = 200;
  DriverLock lock;
  int value = 0;  // of whoever is in
  std::atomic<int> left{kVisitors};
  lock.lock();
  std::vector<std::thread> visitors;
  for (int i = 0; i < kVisitors; ++i)
    visitors.emplace_back([&] {
      for (int k = 0; k < kVisits; ++k) {
        const Visit visit(lock);
        EXPECT_FALSE(lock.try_lock());
        ++value;
      }
      --left;
    });
  int own = 0;
  for (; left > 0; ++own) {
    ++value;
    lock.let_in();
  }
  lock.unlock();
  for (std::thread& visitor : visitors) visitor.join();
  EXPECT_EQ(value, kVisitors * kVisits + own);
}

// However soon the drivers take the lock again.
TEST(DriverLocks, VisitorsAndDriversTakeTurns) {
  DriverLock lock;
  int value = 0;
  std::atomic<bool> stop{false};
  std::vector<std::thread> drivers;
  for (int i = 0; i < 2; ++i)
    drivers.emplace_back([&] {
      while (!stop) {
        const std::lock_guard driving(lock);
        ++value;
        lock.let_in();
      }
    });
  for (int k = 0; k < 200; ++k) {
    const Visit visit(lock);
    ++value;
  }
  stop = true;
  for (std::thread& driver : drivers) driver.join();
  EXPECT_GE(value, 200);
}

// A long visit, in turns, is no reason for a driver to wait.
TEST(DriverLocks, WhoStaysLetsOthersHaveTheirTurn) {
  DriverLock lock;
  std::atomic<bool> drove{false}, visited{false};
  std::optional<Visit> visit(std::in_place, lock);
  std::thread driver([&] {
    const std::lock_guard driving(lock);
    drove = true;
  });
  std::thread visitor([&] {
    const Visit other(lock);
    visited = true;
  });
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!(drove && visited) && std::chrono::steady_clock::now() < end) visit->give_turn();
  visit.reset();
  EXPECT_TRUE(drove && visited);
  driver.join();
  visitor.join();
}

// They are not there to end their waits.
TEST(DriverLocks, AChildDestroysACopyThatThreadsOfItsParentWaitFor) {
  auto lock = std::make_unique<DriverLock>();
  std::atomic<bool> driving{false}, stop{false};
  std::thread driver([&] {
    const std::lock_guard held(*lock);
    driving = true;
    while (!stop) lock->let_in();
  });
  while (!driving) std::this_thread::yield();
  {
    const Visit visit(*lock);  // for whose end the driver waits
    EXPECT_EQ(in_child([&] { lock.reset(); }), 0);
  }
  stop = true;
  driver.join();
}

class BlockedThread : public testing::TestWithParam<std::string> {
 protected:
  // Rank 0 does `meanwhile` while another of its threads is in a receive that does not end before;
  // rank 1 does it, too, and then sends.
  void run(const std::function<void(Communicator&)>& meanwhile) {
    Cluster cluster{.ranks = 2, .mode = Mode::threads, .options = {}, .hosts = {}};
    cluster.options.transport = GetParam();
    cluster.options.timeout_s = 10;
    run_ranks(cluster, [&](Communicator& c) {
      int value = 0;
      if (c.rank() == 1) {
        meanwhile(c);
        value = 7;
        EXPECT_TRUE(c.send(0, &value, 1, DataType::int32).ok());
        return;
      }
      std::thread receiver([&] {
        const Status status = c.recv(1, &value, 1, DataType::int32);
        EXPECT_TRUE(status.ok()) << status.to_string();
        EXPECT_EQ(value, 7);
      });
      while (c.stats().calls == 0) std::this_thread::yield();
      meanwhile(c);
      receiver.join();
    });
  }
};

void expect_sum(Communicator& c) {
  int mine = c.rank() + 1, total = 0;
  const Status status = c.all_reduce(&mine, &total, 1, DataType::int32, ReduceOp::sum);
  EXPECT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(total, 3);
}

TEST_P(BlockedThread, DoesNotKeepOthersFromExplaining) {
  run([](Communicator& c) {
    std::vector<int> in(1000), out(1000);
    for (const size_t count : {1, 10, 1000}) {  // plans that are new, and none
      Call call{.kind = Kind::all_reduce, .input = in.data(), .output = out.data()};
      call.count = count;
      call.type = DataType::int32;
      call.op = ReduceOp::sum;
      for (int i = 0; i < 2; ++i) EXPECT_TRUE(c.explain(call).ok());
    }
    expect_sum(c);
  });
}

TEST_P(BlockedThread, DoesNotKeepOthersFromTracing) {
  run([](Communicator& c) {
    EXPECT_TRUE(c.start_trace(100).ok());
    expect_sum(c);
    EXPECT_FALSE(c.end_trace().empty());
    expect_sum(c);
  });
}

TEST_P(BlockedThread, DoesNotKeepOthersFromAllocating) {
  run([](Communicator& c) {
    constexpr size_t kBytes = 1 << 20;
    const auto in = c.allocate(kBytes), out = c.allocate(kBytes);
    ASSERT_TRUE(in.ok()) << in.status().to_string();
    ASSERT_TRUE(out.ok()) << out.status().to_string();
    auto* const numbers = reinterpret_cast<int*>(in->get());
    numbers[5] = c.rank() + 1;
    const Status status =
        c.all_reduce(in->get(), out->get(), kBytes / sizeof(int), DataType::int32, ReduceOp::sum);
    EXPECT_TRUE(status.ok()) << status.to_string();
    EXPECT_EQ(reinterpret_cast<int*>(out->get())[5], 3);
  });
}

// The progress thread drives calls that do not end: it lets others in, too.
TEST_P(BlockedThread, MayBeTheProgressThread) {
  Cluster cluster{.ranks = 2, .mode = Mode::threads, .options = {}, .hosts = {}};
  cluster.options.transport = GetParam();
  cluster.options.timeout_s = 10;
  run_ranks(cluster, [](Communicator& c) {
    int value = 7, in = 1, out = 0;
    Transfer transfer = c.rank() == 0 ? receive_from(1, &value, 1, DataType::int32)
                                      : send_to(0, &value, 1, DataType::int32);
    Call call{.kind = Kind::all_reduce, .input = &in, .output = &out, .count = 1};
    call.type = DataType::int32;
    call.op = ReduceOp::sum;
    Work work;
    if (c.rank() == 0) work = c.start(std::span(&transfer, 1));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // then it sleeps between polls
    for (int i = 0; i < 200; ++i) EXPECT_TRUE(c.explain(call).ok());
    expect_sum(c);
    if (c.rank() == 1) work = c.start(std::span(&transfer, 1));
    EXPECT_TRUE(work.wait().ok());
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, BlockedThread, Values("shm", "tcp"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace weft::test
