// Calls that move nothing have their place among the others, calls that wait have their deadlines,
// and who waits in a circle blames nobody outside of it.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "tests/support/cluster.h"
#include "tests/support/contains.h"
#include "tests/support/seconds.h"

namespace weft::test {
namespace {

using testing::Values;

class Order : public testing::TestWithParam<std::string> {
 protected:
  Cluster cluster(int ranks, double timeout_s) const {
    Cluster c{.ranks = ranks, .mode = Mode::threads, .options = {}, .hosts = {}};
    c.options.transport = GetParam();
    c.options.timeout_s = timeout_s;
    return c;
  }
};

Call sum_of(const int& in, int& out, size_t count) {
  Call call{.kind = Kind::all_reduce, .input = &in, .output = &out, .count = count};
  call.type = DataType::int32;
  call.op = ReduceOp::sum;
  return call;
}

// All begin at about the same time, however long they took to come here.
Status met(Communicator& c) { return c.run(Call{.kind = Kind::barrier, .timeout_s = 20}); }

// One rank's batch is empty once. What the others then get is right, or an error.
void lose_step(Communicator& c, bool asynchronous) {
  constexpr int kSteps = 30, kEmpty = 10;
  Status status;
  for (int step = 0; step < kSteps && status.ok(); ++step) {
    const int in = 100 * step + c.rank();
    int out = -1;
    const bool none = step == kEmpty && c.rank() == 1;
    const Call call = sum_of(in, out, none ? 0 : 1);
    status = asynchronous ? c.start(call).wait() : c.run(call);
    if (status.ok() && !none) {
      ASSERT_EQ(out, 300 * step + 3);
    }
    if (step < kEmpty) {
      ASSERT_TRUE(status.ok()) << status.to_string();
    }
  }
  EXPECT_EQ(status.code(), Code::mismatch) << status.to_string();
}

TEST_P(Order, ACallWithoutElementsOnOneRankIsNoticed) {
  for (const bool asynchronous : {false, true})
    run_ranks(cluster(3, 20), [&](Communicator& c) { lose_step(c, asynchronous); });
}

// As third calls of a communicator these have tags that agree in their lower 16 bits.
TEST_P(Order, CallsWhoseTagsAreAlikeAreToldApart) {
  run_ranks(cluster(2, 20), [](Communicator& c) {
    constexpr size_t kCount = 446;
    std::vector<float> in(kCount, 1), out(kCount);
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(c.barrier().ok());
    const ReduceOp op = c.rank() == 0 ? ReduceOp::sum : ReduceOp::max;
    const Status status = c.all_reduce(in.data(), out.data(), kCount, DataType::float32, op);
    EXPECT_EQ(status.code(), Code::mismatch) << status.to_string();
  });
}

// Functions of the communicator that are collective make calls of their own: split() begins with an
// all_gather of two numbers, allocate() with one of a length.
TEST_P(Order, AUsersCallIsNotTakenForTheCommunicatorsOwn) {
  run_ranks(cluster(2, 20), [](Communicator& c) {
    const int32_t mine[2] = {1, 2};
    int32_t all[4] = {};
    const Status status =
        c.rank() == 0 ? c.all_gather(mine, all, 2, DataType::int32) : c.split(1, 2).status();
    EXPECT_EQ(status.code(), Code::mismatch) << status.to_string();
    EXPECT_TRUE(contains(status, " of split()")) << status.to_string();
  });
  run_ranks(cluster(2, 20), [](Communicator& c) {
    const uint64_t mine = 1;
    uint64_t all[2] = {};
    const Status status =
        c.rank() == 0 ? c.all_gather(&mine, all, 1, DataType::uint64) : c.allocate(4096).status();
    EXPECT_EQ(status.code(), Code::mismatch) << status.to_string();
    EXPECT_TRUE(contains(status, " of allocate()")) << status.to_string();
  });
}

TEST_P(Order, CallsWithoutElementsMayBeAnywhere) {
  run_ranks(cluster(3, 20), [](Communicator& c) {
    const int in = c.rank();
    std::array<int, 40> out{};
    std::vector<Work> works;
    for (size_t i = 0; i < out.size(); ++i) {
      works.push_back(c.start(sum_of(in, out[i], i % 3 == 0 ? 0 : 1)));
      int now = 0;
      if (i % 7 == 0) {
        ASSERT_TRUE(c.run(sum_of(in, now, i % 2)).ok());
        EXPECT_EQ(now, i % 2 ? 3 : 0);
      }
    }
    for (size_t i = 0; i < out.size(); ++i) {
      ASSERT_TRUE(works[i].wait().ok());
      EXPECT_EQ(out[i], i % 3 == 0 ? 0 : 3);
    }
  });
}

// The k-th send is for the k-th receive, also where one of them is empty.
TEST_P(Order, ATransferWithoutElementsIsNotSkipped) {
  for (const bool sent : {true, false})
    run_ranks(cluster(2, 3), [&](Communicator& c) {
      int numbers[4] = {1, 1, 1, 1};
      if (c.rank() == 0) {
        (void)c.send(1, numbers, sent ? 0 : 4, DataType::int32);
        (void)c.send(1, numbers, 4, DataType::int32);
        (void)c.barrier();
      } else {
        Status status = c.recv(0, numbers, sent ? 4 : 0, DataType::int32);
        if (!sent) status = c.recv(0, numbers, 4, DataType::int32);
        // Two sends of 4 to receives of 0 and 4: the second receive would take the first send.
        EXPECT_EQ(status.code(), Code::mismatch) << status.to_string();
      }
    });
}

TEST_P(Order, TransfersWithoutElementsMeetHoweverTheyAreGrouped) {
  run_ranks(cluster(2, 20), [](Communicator& c) {
    std::array<int, 6> numbers{};
    const auto size = [](size_t i) { return i % 2; };
    for (int round = 0; round < 3; ++round) {
      if (c.rank() == 0) {
        numbers = {10, 11, 12, 13, 14, 15};
        for (size_t i = 0; i < 6; ++i)
          ASSERT_TRUE(c.send(1, &numbers[i], size(i), DataType::int32).ok());
      } else {
        numbers = {};
        std::vector<Transfer> group;
        for (size_t i = 0; i < 6; ++i)
          group.push_back(receive_from(0, &numbers[i], size(i), DataType::int32));
        ASSERT_TRUE(c.run(std::span(group).first(3)).ok());
        ASSERT_TRUE(c.run(std::span(group).last(3)).ok());
        EXPECT_EQ(numbers, (std::array<int, 6>{0, 11, 0, 13, 0, 15}));
      }
      ASSERT_TRUE(c.barrier().ok());
    }
  });
}

// Data that comes a piece at a time takes longer than a call may wait for any of it.
TEST_P(Order, CallsThatMoveGoOn) {
  run_ranks(cluster(2, 1), [](Communicator& c) {
    std::array<int, 8> numbers{};
    std::vector<Transfer> group;
    for (int& number : numbers) group.push_back(receive_from(1, &number, 1, DataType::int32));
    for (const bool asynchronous : {false, true}) {
      ASSERT_TRUE(met(c).ok());
      if (c.rank() == 1) {
        for (int i = 0; i < 9; ++i) {
          std::this_thread::sleep_for(std::chrono::milliseconds(250));
          ASSERT_TRUE(c.send(0, &i, 1, DataType::int32).ok());
        }
        continue;
      }
      int last = 0;
      const Transfer behind = receive_from(1, &last, 1, DataType::int32);
      const Work first = asynchronous ? c.start(group) : Work::failed(c.run(group));
      const Work second = c.start(std::span(&behind, 1));  // waits for the first
      EXPECT_TRUE(first.wait().ok()) << first.wait().to_string();
      EXPECT_TRUE(second.wait().ok()) << second.wait().to_string();
      EXPECT_EQ(numbers, (std::array<int, 8>{0, 1, 2, 3, 4, 5, 6, 7}));
      EXPECT_EQ(last, 8);
    }
  });
}

// Each waits its turn, and then as long for its peer as it may.
TEST_P(Order, CallsThatWaitedForOthersBeginWithAllOfTheirTime) {
  run_ranks(cluster(2, 1), [](Communicator& c) {
    std::array<int, 4> numbers{};
    ASSERT_TRUE(met(c).ok());
    if (c.rank() == 1) {
      for (int i = 0; i < 4; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(600));
        ASSERT_TRUE(c.send(0, &i, 1, DataType::int32).ok());
      }
      return;
    }
    std::vector<Work> works;
    for (int& number : numbers) {
      const Transfer one = receive_from(1, &number, 1, DataType::int32);
      works.push_back(c.start(std::span(&one, 1)));
    }
    for (const Work& work : works) EXPECT_TRUE(work.wait().ok()) << work.wait().to_string();
    EXPECT_EQ(numbers, (std::array<int, 4>{0, 1, 2, 3}));
  });
}

TEST_P(Order, CallsThatWaitForOthersKeepTheirDeadlines) {
  run_ranks(cluster(2, 30), [](Communicator& c) {
    ASSERT_TRUE(c.barrier().ok());
    if (c.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::seconds(3));
      return;
    }
    const int one = 1;
    int out[3] = {};
    Call first = sum_of(one, out[0], 1), second = sum_of(one, out[1], 1);
    first.timeout_s = 20;
    second.timeout_s = 0.5;
    const int64_t begin_ns = steady_clock().now_ns();
    const Work long_one = c.start(first), short_one = c.start(second);
    Call third = sum_of(one, out[2], 1);
    third.timeout_s = 0.7;
    std::thread blocked([&] { EXPECT_EQ(c.run(third).code(), Code::timeout); });
    const Status status = short_one.wait();
    blocked.join();
    EXPECT_EQ(status.code(), Code::timeout) << status.to_string();
    EXPECT_TRUE(contains(status, "waited 0.5 s for calls before it to end") &&
                contains(status, "waits for rank 1"))
        << status.to_string();
    EXPECT_EQ(status.peer(), 1);
    EXPECT_LT(seconds_since(begin_ns), 2.5);
    EXPECT_FALSE(long_one.wait().ok());
  });
}

// However busy this rank's other transfers keep it.
TEST_P(Order, ABlockedCallBesideMovingOnesKeepsItsDeadline) {
  run_ranks(cluster(3, 1), [](Communicator& c) {
    std::vector<char> bytes(32 << 20);
    const Transfer out = send_to(1, bytes.data(), bytes.size(), DataType::uint8);
    const Transfer in = receive_from(0, bytes.data(), bytes.size(), DataType::uint8);
    ASSERT_TRUE(met(c).ok());
    if (c.rank() == 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(4500));
    } else if (c.rank() == 1) {
      while (c.run(std::span(&in, 1)).ok()) {
      }
    } else {
      std::atomic<bool> ended{false};
      const int64_t begin_ns = steady_clock().now_ns();
      std::thread waits([&] {
        int number = 0;
        EXPECT_EQ(c.recv(2, &number, 1, DataType::int32).code(), Code::timeout);
        EXPECT_LT(seconds_since(begin_ns), 2.5);
        ended = true;
      });
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      Work last;
      while (!ended && seconds_since(begin_ns) < 4) {
        const Work next = c.start(std::span(&out, 1));
        if (!last.wait().ok()) break;
        last = next;
      }
      waits.join();
    }
  });
}

TEST_P(Order, RanksThatWaitForEachOtherBlameNobodyElse) {
  run_ranks(cluster(3, 1), [](Communicator& c) {
    int number = 1;
    ASSERT_TRUE(met(c).ok());
    if (c.rank() == 2) {  // has nothing to do with it
      std::this_thread::sleep_for(std::chrono::milliseconds(2500));
      return;
    }
    const Status status = c.recv(1 - c.rank(), &number, 1, DataType::int32);
    EXPECT_EQ(status.peer(), 1 - c.rank()) << status.to_string();
    EXPECT_TRUE(contains(status, "in a circle")) << status.to_string();
    std::this_thread::sleep_for(std::chrono::seconds(1));  // so that no death is in the reports
  });
}

// Rank 0 goes, then rank 2 because of it, which rank 1 has never met and asks for after both.
TEST_P(Order, WhoLeavesBecauseOfALossIsNotBlamedForIt) {
  std::atomic<int> gone = 0;
  const auto wait_for = [&](int count) {
    while (gone < count) std::this_thread::yield();
  };
  run_bare_ranks(cluster(3, 10), [&](Rendezvous& meet) {
    auto made = Communicator::create(meet, cluster(3, 10).options);
    ASSERT_TRUE(made.ok()) << made.status().to_string();
    std::unique_ptr<Communicator> c = made.take();
    int out = 1, in[2] = {};
    const auto to = [&](Rank peer) { return send_to(peer, &out, 1, DataType::int32); };
    const auto from = [&](Rank peer) {
      return receive_from(peer, &in[peer == 2], 1, DataType::int32);
    };
    const std::vector<Transfer> meet_0{to(0), from(0)}, meet_both{to(1), from(1), to(2), from(2)},
        last{from(0), to(2)};
    EXPECT_TRUE(c->run(c->rank() == 0 ? meet_both : meet_0).ok());
    wait_for(c->rank() == 1 ? 2 : c->rank() / 2);
    const Status status = c->rank() == 0   ? Status()
                          : c->rank() == 1 ? c->run(last)
                                           : c->run(std::span(meet_0).last(1));
    EXPECT_EQ(status.ok(), c->rank() == 0);
    EXPECT_TRUE(status.ok() || status.peer() == 0) << status.to_string();
    c.reset();
    ++gone;
  });
}

INSTANTIATE_TEST_SUITE_P(Media, Order, Values("shm", "tcp"),
                         [](const auto& medium) { return medium.param; });

}  // namespace
}  // namespace weft::test
