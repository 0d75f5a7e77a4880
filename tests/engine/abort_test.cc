// A rank that aborts ends the calls of all others, whenever they come to it.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "tests/support/cluster.h"
#include "tests/support/contains.h"
#include "tests/support/seconds.h"

namespace weft::test {
namespace {

// By transport.
class Abort : public testing::TestWithParam<std::string> {};

Cluster cluster(int ranks, const std::string& transport) {
  Cluster c{.ranks = ranks, .mode = Mode::threads, .options = {}, .hosts = {}};
  c.options.transport = transport;
  c.options.timeout_s = 20;
  return c;
}

TEST_P(Abort, EndsEveryoneQuickly) {
  run_ranks(cluster(3, GetParam()), [](Communicator& c) {
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
    EXPECT_EQ(status.peer(), 0);
    EXPECT_LT(took, 1.5);
  });
}

// Whoever asks for the failed rank only afterwards is told, too, though that is in no call.
TEST_P(Abort, IsHeardByRanksThatConnectLater) {
  run_ranks(cluster(3, GetParam()), [](Communicator& c) {
    if (c.rank() == 0) {
      c.abort("the test says so");
      std::this_thread::sleep_for(std::chrono::milliseconds(2500));
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    float number = 0;
    Status status;
    const double took = seconds_of(
        [&] { status = c.rank() == 1 ? c.recv(0, &number, 1, DataType::float32) : c.barrier(); });
    EXPECT_EQ(status.code(), Code::aborted) << status.to_string();
    EXPECT_TRUE(contains(status, "rank 0 aborted: the test says so")) << status.to_string();
    EXPECT_EQ(status.peer(), 0);
    EXPECT_LT(took, 1.5);
  });
}

INSTANTIATE_TEST_SUITE_P(Media, Abort, testing::Values("shm", "tcp"));

}  // namespace
}  // namespace weft::test
