// Wrong arguments, ranks that disagree, die, abort or never come: a clear error everywhere, in
// time.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "tests/support/cluster.h"

namespace weft::test {
namespace {

using testing::Values;

double seconds_of(const std::function<void()>& action) {
  const int64_t begin = steady_clock().now_ns();
  action();
  return static_cast<double>(steady_clock().now_ns() - begin) * 1e-9;
}

bool contains(const Status& status, std::string_view text) {
  return status.to_string().find(text) != std::string::npos;
}

class Misuse : public testing::TestWithParam<std::string> {
 protected:
  Cluster cluster(int ranks, Mode mode = Mode::threads) const {
    Cluster c{.ranks = ranks, .mode = mode, .options = {}, .hosts = {}};
    c.options.transport = GetParam();
    c.options.timeout_s = 20;
    return c;
  }
};

TEST_P(Misuse, WrongArgumentsAreNamedAndHarmless) {
  run_ranks(cluster(2), [](Communicator& c) {
    float x = 1;
    const Status root = c.broadcast(&x, &x, 1, DataType::float32, 7);
    EXPECT_EQ(root.code(), Code::invalid_argument);
    EXPECT_TRUE(contains(root, "root is 7") && contains(root, "0 to 1")) << root.to_string();
    const Status op = c.all_reduce(&x, &x, 1, DataType::float32, ReduceOp::bxor);
    EXPECT_TRUE(contains(op, "bxor") && contains(op, "float32")) << op.to_string();
    const Status null = c.all_reduce(nullptr, &x, 1, DataType::float32, ReduceOp::sum);
    EXPECT_TRUE(contains(null, "input is null")) << null.to_string();
    const Status peer = c.send(2, &x, 1, DataType::float32);
    EXPECT_TRUE(contains(peer, "peer is 2")) << peer.to_string();
    const Status self = c.send(c.rank(), &x, 1, DataType::float32);
    EXPECT_TRUE(contains(self, "itself")) << self.to_string();
    const Status count = c.all_gather(&x, &x, ~size_t{0}, DataType::float32);
    EXPECT_TRUE(contains(count, "count is")) << count.to_string();
    const size_t short_counts[] = {1};
    const Status counts = c.run({.kind = Kind::all_gather,
                                 .input = &x,
                                 .output = &x,
                                 .type = DataType::float32,
                                 .varying = true,
                                 .counts = short_counts});
    EXPECT_TRUE(contains(counts, "1 entries")) << counts.to_string();
    const Status scalar = c.all_reduce(&x, &x, 1, DataType::float32, ReduceOp::premulsum);
    EXPECT_TRUE(contains(scalar, "scalar is null")) << scalar.to_string();
    EXPECT_TRUE(c.health().ok());
    EXPECT_TRUE(c.barrier().ok());
  });
}

TEST_P(Misuse, DifferentCountsAreReportedWithBothSides) {
  run_ranks(cluster(2), [](Communicator& c) {
    std::vector<float> in(64, 1), out(64);
    const size_t count = c.rank() == 0 ? 3 : 5;
    Status status;
    const double took = seconds_of([&] {
      status = c.all_reduce(in.data(), out.data(), count, DataType::float32, ReduceOp::sum);
    });
    EXPECT_EQ(status.code(), Code::mismatch) << status.to_string();
    EXPECT_TRUE(contains(status, "count=3") && contains(status, "count=5")) << status.to_string();
    EXPECT_LT(took, 5);
    EXPECT_EQ(c.barrier().code(), Code::mismatch);  // failed for good
  });
}

TEST_P(Misuse, DifferentCollectivesAreReportedWithBothSides) {
  run_ranks(cluster(3), [](Communicator& c) {
    std::vector<float> in(1000, 1), out(3000);
    Status status;
    const double took = seconds_of([&] {
      status = c.rank() == 1
                   ? c.all_gather(in.data(), out.data(), 1000, DataType::float32)
                   : c.all_reduce(in.data(), out.data(), 1000, DataType::float32, ReduceOp::max);
    });
    EXPECT_EQ(status.code(), Code::mismatch) << status.to_string();
    EXPECT_TRUE(contains(status, "all_gather") && contains(status, "all_reduce"))
        << status.to_string();
    EXPECT_LT(took, 5);
  });
}

TEST_P(Misuse, CheckModeComparesBeforeAnyDataMoves) {
  Cluster checked = cluster(3);
  checked.options.check = true;
  run_ranks(checked, [](Communicator& c) {
    std::vector<float> in(100, 1), out(100, -1);
    ASSERT_TRUE(c.all_reduce(in.data(), out.data(), 100, DataType::float32, ReduceOp::sum).ok());
    EXPECT_EQ(out[0], 3);
    const Status status =
        c.broadcast(in.data(), out.data(), 100, DataType::float32, c.rank() == 2 ? 1 : 0);
    EXPECT_EQ(status.code(), Code::mismatch);
    EXPECT_TRUE(contains(status, "root=0") && contains(status, "root=1")) << status.to_string();
    EXPECT_EQ(out[0], 3);
  });
}

TEST_P(Misuse, ARankThatStaysAwayIsNamedAtTheDeadline) {
  Cluster impatient = cluster(3);
  impatient.options.timeout_s = 1;
  run_ranks(impatient, [](Communicator& c) {
    ASSERT_TRUE(c.barrier().ok());
    if (c.rank() == 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2500));
      return;
    }
    Status status;
    const double took = seconds_of([&] { status = c.barrier(); });
    EXPECT_TRUE(status.code() == Code::timeout) << status.to_string();
    EXPECT_TRUE(contains(status, "rank 2") || contains(status, "reported")) << status.to_string();
    EXPECT_LT(took, 2.4);
  });
}

TEST_P(Misuse, AbortEndsEveryoneQuickly) {
  run_ranks(cluster(3), [](Communicator& c) {
    ASSERT_TRUE(c.barrier().ok());
    if (c.rank() == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      c.abort("the test says so");
      EXPECT_EQ(c.barrier().code(), Code::aborted);
      std::this_thread::sleep_for(std::chrono::milliseconds(1500));
      return;
    }
    std::vector<float> data(1000);
    Status status;
    const double took = seconds_of([&] {
      status = c.all_reduce(data.data(), data.data(), 1000, DataType::float32, ReduceOp::sum);
    });
    EXPECT_EQ(status.code(), Code::aborted) << status.to_string();
    EXPECT_TRUE(contains(status, "the test says so")) << status.to_string();
    EXPECT_LT(took, 1.5);
  });
}

TEST_P(Misuse, ARankThatLeavesIsNamed) {
  run_bare_ranks(cluster(3, Mode::processes), [this](Rendezvous& meet) {
    Options options = cluster(3).options;
    auto made = Communicator::create(meet, options);
    ASSERT_TRUE(made.ok()) << made.status().to_string();
    Communicator& c = **made;
    ASSERT_TRUE(c.barrier().ok());
    std::vector<float> data(300000, 1);
    if (c.rank() == 1) {
      made.take().reset();
      return;
    }
    Status status;
    const double took = seconds_of([&] {
      status =
          c.all_reduce(data.data(), data.data(), data.size(), DataType::float32, ReduceOp::sum);
    });
    EXPECT_EQ(status.code(), Code::peer_lost) << status.to_string();
    EXPECT_TRUE(contains(status, "rank 1")) << status.to_string();
    EXPECT_LT(took, 2);
  });
}

INSTANTIATE_TEST_SUITE_P(Media, Misuse, Values("shm", "tcp"));

TEST(MisuseOfOptions, DifferentOptionsAreNamed) {
  run_bare_ranks({.ranks = 2, .mode = Mode::threads, .options = {}, .hosts = {}},
                 [](Rendezvous& meet) {
                   Options options;
                   options.timeout_s = 20;
                   if (meet.rank() == 1) options.algorithm = "ring";
                   auto made = Communicator::create(meet, options);
                   ASSERT_FALSE(made.ok());
                   EXPECT_EQ(made.status().code(), Code::mismatch);
                   EXPECT_TRUE(contains(made.status(), "algorithm")) << made.status().to_string();
                 });
}

TEST(MisuseOfOptions, UnknownAlgorithmsListWhatThereIs) {
  Cluster cluster{.ranks = 2, .mode = Mode::threads, .options = {}, .hosts = {}};
  cluster.options.algorithm = "magic";
  run_ranks(cluster, [](Communicator& c) {
    float x = 0;
    const Status status = c.all_reduce(&x, &x, 1, DataType::float32, ReduceOp::sum);
    EXPECT_EQ(status.code(), Code::invalid_argument);
    EXPECT_TRUE(contains(status, "magic") && contains(status, "ring")) << status.to_string();
    EXPECT_TRUE(c.barrier().ok());
  });
}

}  // namespace
}  // namespace weft::test
