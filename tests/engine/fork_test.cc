// Forked children that end as programs do, with destructors: what they have copies of stays the
// parent's.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/allocations.h"
#include "engine/dump_signal.h"
#include "engine/progress.h"
#include "tests/support/child.h"
#include "tests/support/cluster.h"

namespace weft::test {
namespace {

constexpr unsigned kPatience_s = 20;

// A rank whose copy a child destroys while a call is under way, which others answer only then.
class ForkingRank {
 public:
  ForkingRank(Rendezvous& meet, const Options& options) {
    auto made = Communicator::create(meet, options);
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    if (made.ok()) communicator_ = made.take();
  }
  explicit operator bool() const { return communicator_ != nullptr; }
  Communicator& operator*() { return *communicator_; }

  void allocate() {
    auto memory = communicator_->allocate(kBytes);
    ASSERT_TRUE(memory.ok()) << memory.status().to_string();
    memory_ = memory.take();
    std::memset(memory_.get(), 'm', kBytes);
  }
  void fork_and_lose_all() {
    int word = 0;
    const Transfer transfer = receive_from(1, &word, 1, DataType::int32);
    const Work work = communicator_->start(std::span(&transfer, 1));
    EXPECT_EQ(in_child([this] {
                memory_.reset();
                communicator_.reset();
              }),
              0);
    expect_sums();
    const Status received = work.wait();
    EXPECT_TRUE(received.ok()) << received.to_string();
    EXPECT_EQ(word, 17);
    EXPECT_EQ(std::string_view(reinterpret_cast<char*>(memory_.get()), kBytes),
              std::string(kBytes, 'm'));
  }
  void answer() {
    expect_sums();
    const int word = 17;
    const Status sent = communicator_->send(0, &word, 1, DataType::int32);
    EXPECT_TRUE(sent.ok()) << sent.to_string();
  }
  // Of more than what fits into a slot.
  Status sum() {
    std::vector<int> in(kCount, communicator_->rank() + 1), out(kCount);
    const Status status =
        communicator_->all_reduce(in.data(), out.data(), in.size(), DataType::int32, ReduceOp::sum);
    EXPECT_TRUE(!status.ok() || out == std::vector<int>(kCount, 3));
    return status;
  }
  void expect_sums() {
    for (int i = 0; i < 3; ++i) {
      const Status status = sum();
      EXPECT_TRUE(status.ok()) << status.to_string();
    }
  }

 private:
  static constexpr size_t kBytes = 100'000, kCount = 1'000'000;
  std::unique_ptr<Communicator> communicator_;
  std::shared_ptr<std::byte> memory_;
};

class Fork : public testing::TestWithParam<const char*> {
 protected:
  static Cluster cluster(Mode mode) {
    Cluster cluster{.ranks = 2, .mode = mode, .options = {}, .hosts = {}};
    cluster.options.transport = GetParam();
    cluster.options.timeout_s = kPatience_s;
    return cluster;
  }
  static void expect_unharmed(ForkingRank& rank) {
    ASSERT_TRUE(rank);
    rank.expect_sums();
    rank.allocate();
    (*rank).rank() == 0 ? rank.fork_and_lose_all() : rank.answer();
    rank.expect_sums();
  }
};
INSTANTIATE_TEST_SUITE_P(Over, Fork, testing::Values("shm", "tcp"));

TEST_P(Fork, AChildThatEndsLeavesTheJobAlone) {
  for (const Mode mode : {Mode::threads, Mode::processes}) {
    const Cluster job = cluster(mode);
    run_bare_ranks(job, [&](Rendezvous& meet) {
      ForkingRank rank(meet, job.options);
      expect_unharmed(rank);
    });
  }
}

// Once the child is gone, deaths are seen as they come.
TEST_P(Fork, ADeathBehindAChildIsSeenAtOnce) {
  const Cluster job = cluster(Mode::processes);
  run_bare_ranks(job, [&](Rendezvous& meet) {
    ForkingRank rank(meet, job.options);
    expect_unharmed(rank);
    if (!rank || meet.rank() == 1) ::_exit(HasFailure() ? 1 : 0);
    const int64_t begin = steady_clock().now_ns();
    const Status status = rank.sum();
    EXPECT_EQ(status.code(), Code::peer_lost) << status.to_string();
    EXPECT_LT(steady_clock().now_ns() - begin, int64_t{kPatience_s / 2} * 1'000'000'000);
  });
}

// Nor does a child that lives on keep from others that its parent has closed.
TEST_P(Fork, AGoodbyeBehindAChildIsHeardAtOnce) {
  const Cluster job = cluster(Mode::processes);
  run_bare_ranks(job, [&](Rendezvous& meet) {
    auto made = Communicator::create(meet, job.options);
    ASSERT_TRUE(made.ok()) << made.status().to_string();
    std::unique_ptr<Communicator> c = made.take();
    int word = 0;
    ASSERT_TRUE(c->all_reduce(&word, &word, 1, DataType::int32, ReduceOp::sum).ok());
    if (meet.rank() == 0) {
      const pid_t child = ::fork();
      if (child == 0) {
        ::sleep(kPatience_s);
        ::_exit(0);
      }
      c.reset();
      std::this_thread::sleep_for(std::chrono::seconds(2));  // an end would be seen, too
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
      return;
    }
    const int64_t begin = steady_clock().now_ns();
    const Status status = c->recv(0, &word, 1, DataType::int32);
    EXPECT_EQ(status.code(), Code::peer_lost) << status.to_string();
    EXPECT_LT(steady_clock().now_ns() - begin, int64_t{1'500} * kMillisecond);
  });
}

TEST(ForkedThread, IsNotWaitedFor) {
  auto thread = ProgressThread::start([] { return std::nullopt; });
  ASSERT_TRUE(thread.ok());
  EXPECT_EQ(in_child([&] { thread->reset(); }), 0);
}

// Memory whose pages are given back once it may be.
class SlowMemory final : public SharedMemory {
 public:
  Bytes bytes() const override { return {const_cast<std::byte*>(bytes_.data()), bytes_.size()}; }
  Status detach(ConstBytes) override { return {}; }
  void discard() override {
    begun = true;
    while (!may) std::this_thread::yield();
  }

  std::atomic<bool> begun{false}, may{false};

 private:
  std::array<std::byte, 64> bytes_{};
};

TEST(ForkedAllocations, AreFreedWhateverAnotherThreadWasDoingWithTheParents) {
  const auto all = std::make_shared<Allocations>();
  const auto slow = std::make_shared<SlowMemory>();
  auto one = Allocations::add(all, 1, slow);
  const auto quick = std::make_shared<SlowMemory>();
  quick->may = true;
  auto other = Allocations::add(all, 2, quick);
  std::thread thread([&] { one.reset(); });
  while (!slow->begun) std::this_thread::yield();
  EXPECT_EQ(in_child([&] { other.reset(); }), 0);
  slow->may = true;
  thread.join();
  EXPECT_EQ(all->find(other.get(), 1).number, 2u);
}

// A dump keeps others from ending meanwhile; in a child nobody ends it.
TEST(ForkedDumpSignal, IsNotWaitedForWhileADumpIsUnderWay) {
  EXPECT_EQ(in_child([] {
              std::atomic<bool> asked = false;
              auto one = std::make_unique<DumpOnSignal>(
                  "USR1", [&] { asked = true; }, [] {});
              ::raise(SIGUSR1);
              while (!asked) std::this_thread::yield();
              const int status = in_child([&] { one.reset(); });
              if (status != 0) ::_exit(1);
            }),
            0);
}

}  // namespace
}  // namespace weft::test
