// What runs beside the caller: order, nesting, groups that go out of scope, errors.
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "tests/fabric/ranks.h"
#include "tests/support/child.h"
#include "tests/support/thread_limit.h"

namespace weft::test {
namespace {

class Async : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Async, testing::Values(1, 2, 4));

void doze() { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

TEST_P(Async, OneInsideOfAnotherIsPartOfIt) {
  on_ranks(GetParam(), [](Fabric& f) {
    const auto outer = f.async([&] {
      const auto inner = f.async([&] { return f.all_reduce(f.rank(), ReduceOp::sum); });
      const int sum = inner.get();
      f.barrier("inside");
      return sum + f.async([&] { return f.all_reduce(1, ReduceOp::sum); }).get();
    });
    const auto next = f.async([&] { return f.all_reduce(2, ReduceOp::sum); });
    EXPECT_EQ(outer.get(), f.size() * (f.size() - 1) / 2 + f.size());
    EXPECT_EQ(next.get(), 2 * f.size());
  });
}

TEST(AsyncFork, AForkedChildWaitsForNothing) {
  Cluster cluster;
  cluster.ranks = 1;
  run_bare_ranks(cluster, [&](Rendezvous& meet) {
    auto fabric = std::make_unique<Fabric>(Fabric::join(meet, {.options = cluster.options}));
    std::atomic<bool> begun = false, go_on = false;
    auto under_way = fabric->async([&] {
      begun = true;
      while (!go_on) doze();
      return 7;
    });
    while (!begun) doze();
    EXPECT_EQ(in_child([&] { fabric.reset(); }), 0);
    go_on = true;
    EXPECT_EQ(under_way.get(), 7);
    under_way = {};                                      // holds the group
    EXPECT_EQ(fabric->all_reduce(1, ReduceOp::sum), 1);  // now the thread has nothing to do
    EXPECT_EQ(in_child([&] { fabric.reset(); }), 0);
  });
}

TEST_P(Async, WaitingForWhatComesLaterIsAnError) {
  on_ranks(GetParam(), [](Fabric& f) {
    std::atomic<bool> given = false;
    Future<int> later;
    const auto early = f.async([&] {
      while (!given) std::this_thread::yield();
      return later.get();
    });
    later = f.async([&] { return f.all_reduce(1, ReduceOp::sum); });
    given = true;
    expect_failure(Code::invalid_argument, {"inside of async()"}, [&] { (void)early.get(); });
    EXPECT_EQ(later.get(), f.size());
  });
}

// The last handle goes, in every way that it can, while calls are queued.
TEST_P(Async, AGroupThatGoesFinishesItsCalls) {
  on_ranks(GetParam(), [](Fabric& f) {
    std::vector<Future<int>> futures;
    const auto queue_on = [&](const Group& group) {
      (void)group.async([] { doze(); });
      for (int i = 0; i < 3; ++i)
        futures.push_back(group.async([&group, i] { return group.all_reduce(i, ReduceOp::sum); }));
    };
    {
      const Group scoped = f.split(0);
      queue_on(scoped);
    }
    Group assigned = f.split(0);
    queue_on(assigned);
    assigned = Group();
    {
      const Group in_task = f.split(0);
      (void)in_task.async([in_task] { doze(); });
      futures.push_back(in_task.async([in_task] { return in_task.all_reduce(0, ReduceOp::sum); }));
    }
    for (size_t i = 0; i < futures.size(); ++i)
      EXPECT_EQ(futures[i].get(), static_cast<int>(i % 3) * f.size());
  });
}

TEST(AsyncFailures, AnExceptionThatPassesAGroupEndsItsCalls) {
  on_ranks(2, [](Fabric& f) {
    const Deadline soon = Deadline::after(20);
    Future<int> never, queued;
    try {
      const Group group = f.split(0);
      if (f.rank() == 0) {
        never = group.async([&] { return group.all_reduce(1); });
        queued = group.async([&] { return group.all_reduce(1); });
      }
      throw std::runtime_error("on both ranks");
    } catch (const std::runtime_error&) {
    }
    if (f.rank() == 0) {
      EXPECT_THROW((void)never.get(), Error);
      EXPECT_THROW((void)queued.get(), Error);
    }
    EXPECT_FALSE(soon.expired());
  });
}

// Says whether a call had ended when it went.
struct Local {
  const std::atomic<bool>& ended;
  bool& went_after;
  ~Local() { went_after = ended; }
};

// What the calls refer to goes after them, and a call that all ranks make leaves the group good.
TEST(AsyncFailures, AnExceptionThatPassesAFutureWaitsForItsCall) {
  on_ranks(2, [](Fabric& f) {
    std::atomic<bool> ended = false;
    bool went_after = false;
    try {
      const Local local{ended, went_after};
      const Future<void> early = f.async([&] {
        if (f.rank() == 0) doze();
        (void)f.all_reduce(1, ReduceOp::sum);
      });
      const Future<void> under_way = f.async([&] {
        (void)f.all_reduce(2, ReduceOp::sum);
        ended = true;
      });
      throw std::runtime_error("on both ranks");
    } catch (const std::runtime_error&) {
    }
    EXPECT_TRUE(went_after);
    EXPECT_EQ(f.all_reduce(1, ReduceOp::sum), 2);
  });
}

TEST(AsyncFailures, AnExceptionThatPassesAFutureEndsACallThatNobodyElseMakes) {
  Cluster two{.ranks = 2, .mode = Mode::processes, .options = {}, .hosts = {}};
  two.options.timeout_s = 12;  // a sixth of which is waited
  on_ranks(two, [](Fabric& f) {
    const Deadline soon = Deadline::after(20);
    std::atomic<bool> ended = false;
    bool went_after = f.rank() == 1;
    if (f.rank() == 0) try {
        const Local local{ended, went_after};
        const Future<void> never = f.async([&] {
          EXPECT_THROW((void)f.all_reduce(1), Error);
          ended = true;
        });
        throw std::runtime_error("on rank 0 only");
      } catch (const std::runtime_error&) {
      }
    EXPECT_TRUE(went_after);
    expect_failure(Code::aborted, {"an exception left the scope of a Future"},
                   [&] { (void)f.recv<int>(1 - f.rank()); });
    EXPECT_FALSE(soon.expired());
  });
}

// In it, calls would be made in its parent's name.
TEST(AsyncFork, AForkedChildMakesNoCalls) {
  on_ranks(2, [](Fabric& f) {
    const Future<int> sum = f.async([&] { return f.all_reduce(1, ReduceOp::sum); });
    EXPECT_EQ(sum.get(), 2);
    if (f.rank() == 0) {
      EXPECT_EQ(in_child([&] {
                  Tensor tensor = Tensor::of({1.0f});
                  for (const std::function<void()>& call : std::vector<std::function<void()>>{
                           [&] { f.barrier(); }, [&] { f.abort("why"); }, [&] { f.leave("why"); },
                           [&] { f.send(1, 1); }, [&] { (void)f.recv<int>(1); },
                           [&] { f.recv_into(tensor, 1); }, [&] { (void)f.isend(tensor, 1); },
                           [&] { (void)f.irecv_into(tensor, 1); }, [&] { (void)f.async([] {}); },
                           [&] { (void)f.shrink(); }, [&] { f.rank_zero_first([] {}); }}) {
                    const Status status = failure_of(call);
                    if (status.message().find("a forked child") == std::string::npos) ::_exit(1);
                  }
                }),
                0);
    }
    EXPECT_EQ(f.all_reduce(1, ReduceOp::sum), 2);
  });
}

TEST(AsyncFailures, AnErrorThatNobodyGetsLeavesTheGroupGood) {
  on_ranks(2, [](Fabric& f) {
    (void)f.async([&] { (void)f.all_reduce(f.rank() == 0 ? 1 : 2, ReduceOp::premulsum); });
    (void)f.async([]() -> int { throw std::runtime_error("nobody hears this"); });
    EXPECT_EQ(f.all_reduce(1, ReduceOp::sum), 2);
  });
}

TEST(AsyncFailures, NoThreadIsAnError) {
  on_ranks(2, [](Fabric& f) {
    const Group group = f.split(0);
    bool skipped = false;
    if (f.rank() == 0) {
      const ThreadLimit none(0);
      skipped = !none.holds();
      if (!skipped) expect_failure(Code::system, {"ulimit -u"}, [&] { (void)group.async([] {}); });
    }
    EXPECT_EQ(group.all_reduce(1, ReduceOp::sum), 2);
    EXPECT_EQ(group.async([&] { return group.all_reduce(1, ReduceOp::sum); }).get(), 2);
    if (skipped) GTEST_SKIP() << "the limit on threads does not hold here";
  });
}

TEST(AsyncFailures, AFutureOfNoCall) {
  const Future<int> none;
  expect_failure(Code::invalid_argument, {"this Future is of no call"}, [&] { (void)none.get(); });
  expect_failure(Code::invalid_argument, {"this Future is of no call"}, [&] { (void)none.done(); });
}

}  // namespace
}  // namespace weft::test
