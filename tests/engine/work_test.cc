// Asynchronous calls: order, independence of sends and receives, deadlines, many at once.
#include "engine/work.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>

#include "tests/support/cluster.h"
#include "tests/support/oracle.h"
#include "tests/support/thread_limit.h"

namespace weft::test {
namespace {

class Works : public testing::TestWithParam<std::string> {
 protected:
  Cluster cluster(int ranks) const {
    Cluster c{.ranks = ranks, .mode = Mode::threads, .options = {}, .hosts = {}};
    c.options.transport = GetParam();
    return c;
  }
};

TEST(Work, NothingIsDoneAndOk) {
  const Work work;
  EXPECT_TRUE(work.test());
  EXPECT_TRUE(work.wait().ok());
}

TEST(Work, FailedKeepsItsStatus) {
  EXPECT_EQ(Work::failed(invalid_argument("x")).wait().code(), Code::invalid_argument);
}

TEST(Work, WaitsNoLongerThanSomebodyWantsItTo) {
  const Work work(std::make_shared<WorkState>());
  std::atomic<bool> stop = false;
  std::jthread stopper([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    stop = true;
  });
  EXPECT_EQ(work.wait(Deadline().unless(stop)).code(), Code::timeout);
  EXPECT_TRUE(stop);
}

TEST_P(Works, ManyCollectivesEndInOrderWithRightResults) {
  run_ranks(cluster(3), [](Communicator& c) {
    constexpr int kCalls = 500;
    std::vector<std::vector<int64_t>> in(kCalls), out(kCalls);
    std::vector<Work> works;
    for (int i = 0; i < kCalls; ++i) {
      in[i].assign(1 + i % 50, c.rank() + i);
      out[i].assign(in[i].size(), 0);
      works.push_back(c.start(Call{.kind = Kind::all_reduce,
                                   .input = in[i].data(),
                                   .output = out[i].data(),
                                   .count = in[i].size(),
                                   .type = DataType::int64,
                                   .op = ReduceOp::sum}));
    }
    ASSERT_TRUE(works.back().wait().ok());
    for (int i = 0; i < kCalls; ++i) {
      ASSERT_TRUE(works[i].test());  // in order: all before the last have ended
      ASSERT_TRUE(works[i].error().ok());
      for (const int64_t value : out[i]) ASSERT_EQ(value, 3 * i + 3);
    }
  });
}

TEST_P(Works, ManySendsDoNotHoldUpWhatIsBehindThem) {
  run_ranks(cluster(2), [](Communicator& c) {
    constexpr int kSends = 600;  // more than links hold
    std::vector<int> numbers(kSends);
    std::iota(numbers.begin(), numbers.end(), 0);
    std::vector<Work> works;
    if (c.rank() == 0) {
      for (const int& number : numbers) {
        const Transfer send = send_to(1, &number, 1, DataType::int32);
        works.push_back(c.start(std::span(&send, 1)));
      }
      ASSERT_TRUE(c.barrier().ok());
    } else {
      ASSERT_TRUE(c.barrier().ok());
      for (int i = 0; i < kSends; ++i) {
        int got = -1;
        ASSERT_TRUE(c.recv(0, &got, 1, DataType::int32).ok());
        ASSERT_EQ(got, i);
      }
    }
    for (const Work& work : works) ASSERT_TRUE(work.wait().ok());
  });
}

TEST_P(Works, ReceivesStartedFirstDoNotBlockSends) {
  run_ranks(cluster(2), [](Communicator& c) {
    constexpr size_t kCount = 1 << 20;  // far more than links hold
    const Rank peer = 1 - c.rank();
    std::vector<int32_t> in(kCount, c.rank() + 1), out(kCount, 0);
    const Transfer receive = receive_from(peer, out.data(), kCount, DataType::int32);
    const Transfer send = send_to(peer, in.data(), kCount, DataType::int32);
    const Work received = c.start(std::span(&receive, 1));
    const Work sent = c.start(std::span(&send, 1));
    ASSERT_TRUE(received.wait().ok());
    ASSERT_TRUE(sent.wait().ok());
    for (const int32_t value : out) ASSERT_EQ(value, peer + 1);
  });
}

// However the two sides group them, the k-th send meets the k-th receive.
TEST_P(Works, GroupsMeetSingleCalls) {
  run_ranks(cluster(2), [](Communicator& c) {
    constexpr size_t kCount = 300'000;
    std::vector<int32_t> first(kCount, c.rank() == 0 ? 1 : 0),
        second(kCount, c.rank() == 0 ? 2 : 0);
    for (const bool sender_groups : {true, false}) {
      const bool group = (c.rank() == 0) == sender_groups;
      if (c.rank() == 1) first.assign(kCount, 0), second.assign(kCount, 0);
      const auto transfer = [&](std::vector<int32_t>& v) {
        return c.rank() == 0 ? send_to(1, v.data(), kCount, DataType::int32)
                             : receive_from(0, v.data(), kCount, DataType::int32);
      };
      const Transfer both[] = {transfer(first), transfer(second)};
      if (group) {
        ASSERT_TRUE(c.run(both).ok());
      } else {
        for (const Transfer& t : both) ASSERT_TRUE(c.run(std::span(&t, 1)).ok());
      }
      for (size_t i = 0; i < kCount; ++i) ASSERT_TRUE(first[i] == 1 && second[i] == 2) << i;
    }
  });
}

// A thread that waits in a blocking call must not keep the process's other threads from theirs.
TEST_P(Works, BlockingCallsOfTwoThreadsGoOnTogether) {
  run_ranks(cluster(2), [](Communicator& c) {
    constexpr size_t kCount = 1 << 20;
    std::vector<int32_t> in(kCount, c.rank() + 1), out(kCount, 0);
    const Rank peer = 1 - c.rank();
    const auto send = [&] { ASSERT_TRUE(c.send(peer, in.data(), kCount, DataType::int32).ok()); };
    const auto receive = [&] {
      ASSERT_TRUE(c.recv(peer, out.data(), kCount, DataType::int32).ok());
    };
    if (c.rank() == 0) {
      std::thread sender(send);
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      std::thread receiver(receive);
      sender.join();
      receiver.join();
    } else {  // sends first: cannot end before rank 0's second thread receives
      send();
      receive();
    }
    for (const int32_t value : out) ASSERT_EQ(value, peer + 1);
  });
}

TEST_P(Works, BlockingCallsQueueBehindAsynchronousOnes) {
  run_ranks(cluster(3), [](Communicator& c) {
    std::vector<int32_t> big(100000, 1), sum(100000, 0);
    const Work work = c.start(Call{.kind = Kind::all_reduce,
                                   .input = big.data(),
                                   .output = sum.data(),
                                   .count = big.size(),
                                   .type = DataType::int32,
                                   .op = ReduceOp::sum});
    ASSERT_TRUE(c.barrier().ok());
    EXPECT_TRUE(work.test());
    EXPECT_EQ(sum.back(), 3);
  });
}

TEST_P(Works, WaitGivesUpAtItsDeadlineAndTheCallGoesOn) {
  run_ranks(cluster(2), [](Communicator& c) {
    int32_t value = 7;
    if (c.rank() == 0) {
      int32_t got = 0;
      const Transfer receive = receive_from(1, &got, 1, DataType::int32);
      const Work work = c.start(std::span(&receive, 1));
      EXPECT_EQ(work.wait(Deadline::after(0.05)).code(), Code::timeout);
      const Transfer go = send_to(1, &value, 1, DataType::int32);
      ASSERT_TRUE(c.run(std::span(&go, 1)).ok());
      ASSERT_TRUE(work.wait().ok());
      EXPECT_EQ(got, 9);
    } else {
      ASSERT_TRUE(c.recv(0, &value, 1, DataType::int32).ok());
      value = 9;
      ASSERT_TRUE(c.send(0, &value, 1, DataType::int32).ok());
    }
  });
}

// It fails alone: nothing waits for it, and blocking calls need no thread.
TEST_P(Works, WithoutAThreadFail) {
  run_ranks(cluster(2), [](Communicator& c) {
    int32_t value = c.rank();
    const Transfer other = c.rank() == 0 ? send_to(1, &value, 1, DataType::int32)
                                         : receive_from(0, &value, 1, DataType::int32);
    bool skipped = false;
    if (c.rank() == 0) {
      const ThreadLimit none(0);
      skipped = !none.holds();
      const Status status = skipped ? Status() : c.start(std::span(&other, 1)).wait();
      EXPECT_EQ(status.code(), skipped ? Code::ok : Code::system) << status.to_string();
    }
    ASSERT_TRUE(c.barrier().ok());
    EXPECT_TRUE(c.start(std::span(&other, 1)).wait().ok());
    EXPECT_EQ(value, 0);
    if (skipped) GTEST_SKIP() << "the limit on threads does not hold here";
  });
}

INSTANTIATE_TEST_SUITE_P(Media, Works, testing::Values("shm", "tcp"));

}  // namespace
}  // namespace weft::test
