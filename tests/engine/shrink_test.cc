// Ranks that die, one or several, at any moment: the others go on in a smaller communicator.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "tests/support/cluster.h"
#include "tests/support/seconds.h"

namespace weft::test {
namespace {

using testing::Values;

class Shrink : public testing::TestWithParam<std::string> {
 protected:
  Cluster cluster(int ranks, Mode mode = Mode::processes) const {
    Cluster c{.ranks = ranks, .mode = mode, .options = {}, .hosts = {}};
    c.options.transport = GetParam();
    c.options.timeout_s = 20;
    return c;
  }
};

// The sum of all ranks' `mine`.
Status sum(Communicator& c, int mine, int& total) {
  return c.all_reduce(&mine, &total, 1, DataType::int32, ReduceOp::sum);
}

void expect_sum(Communicator& c, int mine, int expected) {
  int total = 0;
  const Status status = sum(c, mine, total);
  EXPECT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(total, expected);
}

// Without a word: as far as others can see, it was killed.
[[noreturn]] void die() { ::_exit(0); }

// Rank `dead` of `ranks` dies in the middle of a loop of all_reduces, and the rest finish it.
void lose(Cluster cluster, Rank dead) {
  const int all = cluster.ranks * (cluster.ranks - 1) / 2;
  run_ranks(cluster, [&](Communicator& c) {
    std::unique_ptr<Communicator> shrunk;
    Communicator* now = &c;
    const Rank me = c.rank();
    for (int step = 0; step < 100; ++step) {
      if (me == dead && step == 50) die();
      const int64_t begin_ns = steady_clock().now_ns();
      int total = 0;
      Status status = sum(*now, me, total);
      if (!status.ok()) {
        ASSERT_FALSE(shrunk) << status.to_string();
        EXPECT_EQ(status.peer(), dead) << status.to_string();
        EXPECT_LT(steady_clock().now_ns() - begin_ns, 5'000'000'000) << "not the deadline";
        auto made = now->shrink();
        ASSERT_TRUE(made.ok()) << made.status().to_string();
        shrunk = made.take();
        now = shrunk.get();
        EXPECT_EQ(now->size(), c.size() - 1);
        EXPECT_EQ(now->rank(), me - (me > dead));
        status = sum(*now, me, total);
      }
      ASSERT_TRUE(status.ok()) << status.to_string();
      EXPECT_EQ(total, shrunk ? all - dead : all);
    }
    EXPECT_TRUE(shrunk);
  });
}

TEST_P(Shrink, TheOthersFinishTheLoop) {
  for (const Rank dead : {2, 0, 3}) lose(cluster(4), dead);
  lose(cluster(2), 0);
  lose(cluster(7), 5);
}

// Two that were shrunk from the same one are not taken for each other.
TEST_P(Shrink, RanksThatShrinkDifferentOnesAreTold) {
  run_ranks(cluster(3), [](Communicator& c) {
    const std::unique_ptr<Communicator> made[2] = {c.shrink().take(), c.shrink().take()};
    for (const Rank odd : {0, 1, 2}) {
      const auto crossed = made[c.rank() == odd]->shrink();
      ASSERT_FALSE(crossed.ok());
      EXPECT_EQ(crossed.status().code(), Code::mismatch) << crossed.status().to_string();
      if (c.rank() != odd) {
        EXPECT_EQ(crossed.status().peer(), odd) << crossed.status().to_string();
      }
      EXPECT_NE(crossed.status().message().find("in the same order"), std::string::npos);
    }
    for (const auto& each : made) {
      const auto again = each->shrink();
      ASSERT_TRUE(again.ok()) << again.status().to_string();
      expect_sum(**again, c.rank(), 3);
    }
  });
}

// Who comes with the first one meets those who have got further.
TEST_P(Shrink, DescendantsMeetTheirAncestors) {
  run_ranks(cluster(3), [](Communicator& c) {
    const auto made = c.shrink().take();
    const auto again = c.rank() == 1 ? c.shrink() : made->shrink();
    ASSERT_TRUE(again.ok()) << again.status().to_string();
    expect_sum(**again, c.rank(), 3);
  });
}

TEST_P(Shrink, TheNextLeaderMayBeDeadAsWell) {
  run_ranks(cluster(5), [](Communicator& c) {
    if (c.rank() < 3 && c.rank() != 1) die();
    int total = 0;
    EXPECT_FALSE(sum(c, c.rank(), total).ok());
    if (c.rank() == 1) die();
    auto shrunk = c.shrink();
    ASSERT_TRUE(shrunk.ok()) << shrunk.status().to_string();
    EXPECT_EQ((*shrunk)->size(), 2);
    expect_sum(**shrunk, c.rank(), 7);
  });
}

// Nothing was ever opened between most of these.
TEST_P(Shrink, BeforeTheFirstCall) {
  run_ranks(cluster(6), [](Communicator& c) {
    if (c.rank() % 2 == 0) die();
    auto shrunk = c.shrink();
    ASSERT_TRUE(shrunk.ok()) << shrunk.status().to_string();
    EXPECT_EQ((*shrunk)->size(), 3);
    expect_sum(**shrunk, c.rank(), 9);
  });
}

// Deaths come while others already meet, or make the new communicator, or use it.
TEST_P(Shrink, DeathsAtAnyMoment) {
  for (uint32_t seed = 1; seed <= 12; ++seed) {
    run_ranks(cluster(6), [seed](Communicator& c) {
      const Rank me = c.rank();
      if (me % 2 == 1) {
        std::mt19937 random(seed * 6 + static_cast<uint32_t>(me));
        const std::chrono::microseconds life(random() % 15'000);
        std::thread([life] {
          std::this_thread::sleep_for(life);
          die();
        }).detach();
      }
      std::vector<std::unique_ptr<Communicator>> shrunk;
      Communicator* now = &c;
      const Deadline deadline = Deadline::after(30);
      for (int successes = 0; successes < 50 && !deadline.expired();) {
        int total = 0;
        if (sum(*now, me, total).ok()) {
          EXPECT_TRUE(now->size() > 3 || total == 6) << total;
          successes += now->size() == 3;
          continue;
        }
        auto made = now->shrink();
        ASSERT_TRUE(made.ok()) << "seed " << seed << ": " << made.status().to_string();
        shrunk.push_back(made.take());
        now = shrunk.back().get();
      }
      EXPECT_EQ(now->size(), 3) << "seed " << seed;
      EXPECT_FALSE(deadline.expired()) << "seed " << seed;
    });
  }
}

TEST_P(Shrink, ASoundCommunicatorMayLeaveRanksOut) {
  run_ranks(cluster(4, Mode::threads), [](Communicator& c) {
    const Rank left[] = {1};
    if (c.rank() != 1) {
      auto shrunk = c.shrink(left);
      ASSERT_TRUE(shrunk.ok()) << shrunk.status().to_string();
      EXPECT_EQ((*shrunk)->size(), 3);
      expect_sum(**shrunk, c.rank(), 5);
      auto two = (*shrunk)->shrink(left);  // its rank 1 is rank 2
      if (c.rank() != 2) {
        ASSERT_TRUE(two.ok()) << two.status().to_string();
        expect_sum(**two, c.rank(), 3);
      }
    }
    expect_sum(c, c.rank(), 6);  // it goes on as well
  });
}

TEST_P(Shrink, WhoDoesNotCallIsLeftOut) {
  run_ranks(cluster(3, Mode::threads), [](Communicator& c) {
    if (c.rank() == 2) return std::this_thread::sleep_for(std::chrono::milliseconds(700));
    auto shrunk = c.shrink({}, 0.3);
    ASSERT_TRUE(shrunk.ok()) << shrunk.status().to_string();
    EXPECT_EQ((*shrunk)->size(), 2);
    expect_sum(**shrunk, c.rank(), 1);
  });
}

// Under the lowest rank the others meet: they do not go on by themselves where it does not call,
// but hear which one it was, and what to do.
TEST_P(Shrink, TheLowestThatDoesNotCallIsNamed) {
  std::atomic<int> done{0};
  run_ranks(cluster(3, Mode::threads), [&](Communicator& c) {
    if (c.rank() != 0) {
      const auto alone = c.shrink({}, 0.3);
      EXPECT_EQ(alone.status().code(), Code::timeout) << alone.status().to_string();
      EXPECT_EQ(alone.status().peer(), 0) << alone.status().to_string();
      EXPECT_NE(alone.status().message().find("name it in `without`"), std::string_view::npos)
          << alone.status().to_string();
      const Rank lowest[] = {0};
      auto shrunk = c.shrink(lowest, 5);
      ASSERT_TRUE(shrunk.ok()) << shrunk.status().to_string();
      EXPECT_EQ((*shrunk)->size(), 2);
      expect_sum(**shrunk, c.rank(), 3);
    }
    ++done;
    const Deadline patience = Deadline::after(20);
    while (done < 3 && !patience.expired()) ::usleep(1000);
  });
}

TEST_P(Shrink, WhoComesTooLateIsTold) {
  run_ranks(cluster(2, Mode::threads), [](Communicator& c) {
    if (c.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(400));
    auto shrunk = c.shrink({}, 0.2);
    EXPECT_EQ(shrunk.ok(), c.rank() == 0);
    if (c.rank() == 0) return std::this_thread::sleep_for(std::chrono::milliseconds(2000));
    EXPECT_EQ(shrunk.status().code(), Code::timeout) << shrunk.status().to_string();
  });
}

// As leader and as follower; the third rank does not come.
TEST_P(Shrink, AbortEndsIt) {
  for (const Rank aborts : {0, 1}) {
    run_ranks(cluster(3, Mode::threads), [&](Communicator& c) {
      expect_sum(c, 1, 3);
      const Deadline begun = Deadline::after(10);
      std::thread other;
      if (c.rank() == aborts)
        other = std::thread([&] {
          std::this_thread::sleep_for(std::chrono::milliseconds(100));
          c.abort("enough of this");
        });
      if (c.rank() != 2) {
        const auto shrunk = c.shrink({}, c.rank() == aborts ? 15 : 1);
        EXPECT_EQ(shrunk.ok(), c.rank() != aborts);
        if (c.rank() == aborts) {
          EXPECT_EQ(shrunk.status().code(), Code::aborted) << shrunk.status().to_string();
          EXPECT_FALSE(begun.expired());
        } else if (shrunk.ok()) {
          EXPECT_EQ((*shrunk)->size(), 1);
        }
      } else {
        std::this_thread::sleep_for(std::chrono::milliseconds(1500));
      }
      if (other.joinable()) other.join();
    });
  }
}

// Rank 0 has another thread in a receive on `c` that does not end before `meanwhile` has: rank 1
// sends then.
void beside_a_receive(Communicator& c, std::atomic<int>& done,
                      const std::function<void()>& meanwhile) {
  std::thread receiver;
  int value = 0;
  if (c.rank() == 0) {
    const uint64_t calls = c.stats().calls;
    receiver = std::thread([&c, &value] {
      const Status status = c.recv(1, &value, 1, DataType::int32);
      EXPECT_TRUE(status.ok()) << status.to_string();
      EXPECT_EQ(value, 7);
    });
    while (c.stats().calls == calls) std::this_thread::yield();
  }
  meanwhile();
  ++done;
  if (c.rank() == 1) {
    const Deadline patience = Deadline::after(12);
    while (done < c.size() && !patience.expired()) ::usleep(1000);
    value = 7;
    EXPECT_TRUE(c.send(0, &value, 1, DataType::int32).ok());
  }
  if (receiver.joinable()) receiver.join();
}

// Where it was shrunk from, a thread is in a call.
TEST_P(Shrink, OfAShrunkOneDoesNotWaitForCallsOnTheFirst) {
  std::atomic<int> done{0};
  run_ranks(cluster(3, Mode::threads), [&](Communicator& c) {
    auto first = c.shrink();
    ASSERT_TRUE(first.ok());
    beside_a_receive(c, done, [&] {
      (*first)->abort("again");
      const int64_t begin_ns = steady_clock().now_ns();
      auto second = (*first)->shrink({}, 8);
      ASSERT_TRUE(second.ok()) << second.status().to_string();
      EXPECT_LT(seconds_since(begin_ns), 6);
      EXPECT_EQ((*second)->size(), 3);
      expect_sum(**second, c.rank(), 3);
    });
  });
}

// The other way round: the call comes while the shrink is under way, which rank 1 comes to only
// when the call has ended.
TEST_P(Shrink, OfAShrunkOneLetsCallsOnTheFirstGoOn) {
  run_ranks(cluster(2, Mode::threads), [&](Communicator& c) {
    std::vector<int> values(8 << 20, c.rank());
    auto first = c.shrink();
    ASSERT_TRUE(first.ok());
    std::thread receiver;
    if (c.rank() == 0)
      receiver = std::thread([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        EXPECT_TRUE(c.recv(1, values.data(), values.size(), DataType::int32).ok());
        EXPECT_EQ(values.back(), 1);
      });
    else
      EXPECT_TRUE(c.send(0, values.data(), values.size(), DataType::int32).ok());
    auto second = (*first)->shrink({}, 8);
    if (receiver.joinable()) receiver.join();
    ASSERT_TRUE(second.ok()) << second.status().to_string();
    EXPECT_EQ((*second)->size(), 2);
  });
}

TEST_P(Shrink, AbortEndsItBesideACallOnTheFirst) {
  std::atomic<int> done{0};
  run_ranks(cluster(2, Mode::threads), [&](Communicator& c) {
    auto first = c.shrink();
    ASSERT_TRUE(first.ok());
    beside_a_receive(c, done, [&] {
      if (c.rank() != 0) return;
      std::thread other([&first] {
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        (*first)->abort("enough of this");
      });
      const int64_t begin_ns = steady_clock().now_ns();
      const auto second = (*first)->shrink({}, 15);
      EXPECT_EQ(second.status().code(), Code::aborted) << second.status().to_string();
      EXPECT_LT(seconds_since(begin_ns), 6);
      other.join();
    });
  });
}

TEST_P(Shrink, WaitsForOwnCallsNoLongerThanItMay) {
  std::atomic<int> done{0};
  run_ranks(cluster(2, Mode::threads), [&](Communicator& c) {
    beside_a_receive(c, done, [&] {
      if (c.rank() != 0) return;
      const int64_t begin_ns = steady_clock().now_ns();
      const auto shrunk = c.shrink({}, 0.3);
      EXPECT_EQ(shrunk.status().code(), Code::timeout) << shrunk.status().to_string();
      EXPECT_NE(shrunk.status().message().find("waited 0.3 s for what another of its threads does"),
                std::string_view::npos)
          << shrunk.status().to_string();
      EXPECT_LT(seconds_since(begin_ns), 6);
    });
    expect_sum(c, c.rank(), 1);
  });
}

TEST_P(Shrink, WrongArgumentsAreNamed) {
  run_ranks(cluster(2, Mode::threads), [](Communicator& c) {
    for (const Rank wrong : {-1, 2, c.rank()}) {
      const Rank without[] = {wrong};
      const auto refused = c.shrink(without);
      EXPECT_EQ(refused.status().code(), Code::invalid_argument);
      EXPECT_NE(refused.status().message().find("shrink without rank " + std::to_string(wrong)),
                std::string_view::npos);
    }
    ASSERT_TRUE(c.barrier().ok());
  });
}

// Ranks that nothing leads to are lost to each other.
TEST(ShrinkWithoutRoutes, GoesOnAlone) {
  Cluster apart{.ranks = 2, .mode = Mode::threads, .options = {}, .hosts = {"a", "b"}};
  apart.options.transport = "shm";
  apart.options.timeout_s = 20;
  run_ranks(apart, [](Communicator& c) {
    int total = 0;
    EXPECT_EQ(sum(c, 1, total).code(), Code::unsupported);
    auto alone = c.shrink();
    ASSERT_TRUE(alone.ok()) << alone.status().to_string();
    EXPECT_EQ((*alone)->size(), 1);
    expect_sum(**alone, 5, 5);
  });
}

INSTANTIATE_TEST_SUITE_P(Media, Shrink, Values("shm", "tcp"),
                         [](const auto& medium) { return medium.param; });

}  // namespace
}  // namespace weft::test
