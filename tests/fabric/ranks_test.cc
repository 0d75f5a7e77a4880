// Who is where, who goes first, who prints.
#include "tests/fabric/ranks.h"

#include <atomic>
#include <chrono>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "fabric/gradient_sync.h"
#include "fabric/shards.h"

namespace weft::test {
namespace {

TEST(Ranks, AreCountedByMachine) {
  Cluster cluster;
  cluster.ranks = 4;
  cluster.hosts = {"a", "b", "a", "b"};
  on_ranks(cluster, [](Fabric& f) {
    EXPECT_EQ(f.world_size(), 4);
    EXPECT_EQ(f.num_nodes(), 2);
    EXPECT_EQ(f.node_rank(), f.global_rank() % 2);
    EXPECT_EQ(f.local_rank(), f.global_rank() / 2);
    EXPECT_EQ(f.is_global_zero(), f.global_rank() == 0);
  });
}

TEST(RankZeroFirst, RunsFirst) {
  std::atomic<int> done{0};
  on_ranks(4, [&](Fabric& f) {
    const int order = f.rank_zero_first([&] { return done++; });
    EXPECT_EQ(order == 0, f.is_global_zero());
  });
}

TEST(RankZeroFirst, LocallyOnEachMachine) {
  Cluster cluster;
  cluster.ranks = 4;
  cluster.hosts = {"a", "b", "a", "b"};
  std::atomic<int> done{0};
  on_ranks(cluster, [&](Fabric& f) {
    const int order = f.rank_zero_first([&] { return done++; }, /*local=*/true);
    EXPECT_EQ(order < 2, f.local_rank() == 0);
  });
}

TEST(RankZeroFirst, AFailureIsEverybodys) {
  on_ranks(3, [](Fabric& f) {
    std::atomic<bool> ran{false};
    const auto block = [&] {
      ran = true;
      if (f.is_global_zero()) throw std::runtime_error("the disk is full");
    };
    if (f.is_global_zero()) {
      EXPECT_THROW(f.rank_zero_first(block), std::runtime_error);
    } else {
      expect_failure(Code::aborted, {"rank 0: ", "the disk is full"},
                     [&] { f.rank_zero_first(block); });
      EXPECT_FALSE(ran);
    }
    f.barrier("after");
  });
}

// Calls that need the others cannot be made where the others wait: an error on every rank, and the
// group can be used on.
void expect_alone(const std::function<void(Fabric&)>& call) {
  for (const bool local : {false, true})
    on_ranks(3, [&](Fabric& f) {
      (void)f.async([&] { f.barrier("before"); });  // not of the block
      const Code code = Code::invalid_argument;
      expect_failure(code, {"inside of the block of rank_zero_first", f.rank() ? "rank 0: " : ""},
                     [&] { f.rank_zero_first([&] { call(f); }, local); });
      EXPECT_EQ(f.all_reduce(1, ReduceOp::sum), 3);
    });
}

TEST(RankZeroFirst, ACallOfAllRanksInTheBlockIsNamed) {
  expect_alone([](Fabric& f) { f.barrier(); });
  expect_alone([](Fabric& f) { (void)f.all_reduce(1); });
  expect_alone([](Fabric& f) { (void)f.split(0); });
  expect_alone([](Fabric& f) { (void)f.async([&] { f.barrier(); }); });
  expect_alone([](Fabric& f) { f.rank_zero_first([] {}); });
}

TEST(RankZeroFirst, ACallOfAllRanksInAnotherRanksBlockIsItsOwnError) {
  on_ranks(3, [](Fabric& f) {
    const auto block = [&] {
      if (f.rank() == 1) f.barrier();
    };
    if (f.rank() == 1)
      expect_failure(Code::invalid_argument, {"inside of the block"},
                     [&] { f.rank_zero_first(block); });
    else
      f.rank_zero_first(block);
    f.barrier("after");
  });
}

// Of groups that have more ranks than this one: those are not in the block, or not yet.
TEST(RankZeroFirst, ACallOfAnotherGroupInTheBlockIsNamed) {
  on_ranks(3, [](Fabric& f) {
    const Group half = f.split(f.rank() < 2 ? 0 : 1), part = half.split(0), own = f.split(f.rank());
    const auto refused = [&](const std::function<void()>& call) {
      expect_failure(Code::invalid_argument,
                     {"inside of the block of rank_zero_first", f.rank() ? "rank 0: " : ""},
                     [&] { f.rank_zero_first([&] { f.is_global_zero() ? call() : void(); }); });
    };
    refused([&] { half.barrier("inner"); });
    refused([&] { (void)part.all_reduce(1); });
    refused([&] { (void)part.async([&] { part.barrier(); }); });
    EXPECT_EQ(f.rank_zero_first([&] { return own.all_reduce(7); }), 7);
    EXPECT_EQ(part.all_reduce(1, ReduceOp::sum), part.size());
  });
}

// Another thread of the rank is in no block.
TEST(RankZeroFirst, OtherThreadsUseTheirGroups) {
  on_ranks(2, [](Fabric& f) {
    const Group beside = f.split(0);
    int sum = 0;
    std::atomic<bool> in_block{false};
    std::thread other([&] {
      while (!in_block) std::this_thread::yield();
      sum = beside.all_reduce(1, ReduceOp::sum);
    });
    f.rank_zero_first([&] { in_block = true; });
    other.join();
    EXPECT_EQ(sum, 2);
  });
}

TEST(RankZeroFirst, AnotherRanksFailureIsItsOwn) {
  on_ranks(3, [](Fabric& f) {
    const auto block = [&] {
      if (f.rank() == 1) throw std::runtime_error("mine");
    };
    if (f.rank() == 1)
      EXPECT_THROW(f.rank_zero_first(block), std::runtime_error);
    else
      f.rank_zero_first(block);
    f.barrier("after");
  });
}

TEST(Barrier, NamesWhoDidNotCome) {
  Cluster cluster;
  cluster.ranks = 4;
  on_ranks(cluster, [](Fabric& f) {
    if (f.rank() == 3) {
      const Deadline late = Deadline::after(1.5);
      while (!late.expired()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      EXPECT_THROW(f.barrier("epoch 3"), Error);
      return;
    }
    const Status status = failure_of([&] { f.barrier("epoch 3", 0.3); });
    EXPECT_EQ(status.code(), Code::timeout);
    EXPECT_NE(status.message().find("barrier(\"epoch 3\")"), std::string::npos);
    EXPECT_NE(status.message().find("no word from rank 3"), std::string::npos)
        << status.to_string();
  });
}

// Nobody goes on behind a barrier that others have given up.
TEST(Barrier, WhoComesTooLateFailsToo) {
  for (const int ranks : {2, 3, 5}) {
    on_ranks(ranks, [](Fabric& f) {
      f.barrier("begin");
      const bool late = f.rank() == 1;
      if (late) std::this_thread::sleep_for(std::chrono::milliseconds(900));
      const Status status = failure_of([&] { f.barrier("epoch end", 0.25); });
      EXPECT_EQ(status.code(), Code::timeout) << status.to_string();
      if (late) return;
      const bool is_first = status.message().starts_with("barrier(\"epoch end\") timed out");
      EXPECT_TRUE(is_first) << status.message();
      EXPECT_NE(status.message().find(": no word from rank 1, which"), std::string_view::npos)
          << status.message();
      EXPECT_EQ(status.message().find("WEFT_TIMEOUT"), std::string_view::npos);
      expect_failure(Code::timeout,
                     {"barrier(\"next\"): the group failed earlier: ", "no word from rank 1"},
                     [&] { f.barrier("next", 5); });
    });
  }
}

TEST(Barrier, ATimeThatIsNoneIsAnErrorOnEveryRank) {
  on_ranks(3, [](Fabric& f) {
    const double nan = std::nan("");
    expect_failure(Code::invalid_argument, {"barrier(\"x\"): timeout_s is -1"},
                   [&] { f.barrier("x", -1); });
    expect_failure(Code::invalid_argument, {"rank 1: barrier(\"x\"): timeout_s is nan"},
                   [&] { f.barrier("x", f.rank() == 1 ? nan : 0); });
    expect_failure(Code::invalid_argument, {"timeout_s is inf; give seconds, 1e+09 at most"},
                   [&] { f.rank_zero_first([] {}, false, 1 / 0.0); });
    expect_failure(Code::invalid_argument, {"timeout_s is 1e+300;"},
                   [&] { f.barrier("x", 1e300); });
    f.barrier("x", 30);
    f.barrier("x", f.rank() == 1 ? 30 : 0);
  });
}

TEST(BeforeLaunch, EveryCallIsAnError) {
  Fabric f;
  const std::vector<std::string> parts = {"call launch() first"};
  expect_failure(Code::invalid_argument, parts, [&] { (void)f.world_size(); });
  expect_failure(Code::invalid_argument, parts, [&] { (void)f.global_rank(); });
  expect_failure(Code::invalid_argument, parts, [&] { (void)f.rank(); });
  expect_failure(Code::invalid_argument, parts, [&] { (void)f.is_global_zero(); });
  expect_failure(Code::invalid_argument, parts, [&] { (void)f.local_rank(); });
  expect_failure(Code::invalid_argument, parts, [&] { (void)f.num_nodes(); });
  expect_failure(Code::invalid_argument, parts, [&] { f.print("x"); });
  expect_failure(Code::invalid_argument, parts, [&] { f.barrier(); });
  expect_failure(Code::invalid_argument, parts, [&] { (void)f.all_reduce(1); });
  expect_failure(Code::invalid_argument, parts, [&] { (void)f.async([] {}); });
  expect_failure(Code::invalid_argument, parts, [&] { (void)f.scatter<int>({1}); });
  expect_failure(Code::invalid_argument, parts, [&] { f.rank_zero_first([] {}); });
  expect_failure(Code::invalid_argument, parts, [&] { (void)Shards(f); });
  expect_failure(Code::invalid_argument, parts, [&] { GradientSync(f, {}); });
}

TEST(MovedFrom, HasNoPlace) {
  on_ranks(1, [](Fabric& f) {
    const Fabric moved = std::move(f);
    EXPECT_EQ(moved.local_rank(), 0);
    expect_failure(Code::invalid_argument, {"no member"},
                   [&] { (void)f.local_rank(); });  // NOLINT(bugprone-use-after-move)
  });
}

TEST(Print, IsRankZeros) {
  on_ranks(2, [](Fabric& f) {
    std::ostringstream out;
    f.print_to(out, "loss", 0.5, Tensor::of({1, 2}));
    EXPECT_EQ(out.str(), f.is_global_zero() ? "loss 0.5 [1, 2]\n" : "");
  });
}

TEST(Device, IsTheHost) {
  on_ranks(1, [](Fabric& f) {
    EXPECT_EQ(f.device(), Device{});
    EXPECT_EQ(f.to_device(Tensor(2)).item<int>(), 2);
    EXPECT_EQ(f.to_device(Collection::list({1, "x"})).to_string(), "[1, \"x\"]");
  });
}

}  // namespace
}  // namespace weft::test
