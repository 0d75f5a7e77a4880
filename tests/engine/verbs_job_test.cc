// Whole jobs on this machine's RDMA device: exits with 77 where there is none.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "tests/support/cluster.h"
#include "tests/support/oracle.h"
#include "transport/backends.h"

namespace weft::test {
namespace {

std::string link_down;  // a command that takes a link down, from main()'s arguments

Cluster cluster(int ranks, Mode mode) {
  Cluster c{.ranks = ranks, .mode = mode, .options = {}, .hosts = {}};
  c.options.transport = "verbs";
  return c;
}

void compare(Communicator& c, Kind kind, size_t count, uint64_t salt) {
  for (const bool in_place : {false, true}) {
    const Shape shape{.kind = kind, .ranks = c.size(), .root = c.size() - 1, .count = count};
    ASSERT_EQ(run_and_compare(c, shape, in_place, salt), "") << count << " elements";
  }
}

const Kind kAll[] = {Kind::all_reduce,     Kind::reduce, Kind::broadcast, Kind::all_gather,
                     Kind::reduce_scatter, Kind::gather, Kind::scatter,   Kind::all_to_all};

class Job : public testing::TestWithParam<int> {};

TEST_P(Job, AllCollectives) {
  run_ranks(cluster(GetParam(), Mode::processes), [](Communicator& c) {
    uint64_t salt = 0;
    for (const size_t count : {1, 1000, 100000})
      for (const Kind kind : kAll) compare(c, kind, count, ++salt);
    EXPECT_TRUE(c.barrier().ok());
  });
}
INSTANTIATE_TEST_SUITE_P(Ranks, Job, testing::Values(2, 3, 4));

TEST(VerbsJob, OneSizeOfEach) {
  run_ranks(cluster(2, Mode::processes), [](Communicator& c) {
    uint64_t salt = 100;
    for (const Kind kind : kAll) compare(c, kind, 50000, ++salt);
  });
}

// Until it fails; what it fails with.
Status reduce_on(Communicator& c) {
  std::vector<float> data(200000, 1.0F);
  const Call call{.kind = Kind::all_reduce,
                  .input = data.data(),
                  .output = data.data(),
                  .count = data.size(),
                  .type = DataType::float32};
  Status status;
  for (int i = 0; i < 10000 && status.ok(); ++i) status = c.run(call);
  return status;
}

TEST(VerbsJob, SurvivorsNameAKilledPeer) {
  run_ranks(cluster(3, Mode::processes), [](Communicator& c) {
    if (c.rank() == 1) {
      std::thread([] {
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        ::_exit(0);
      }).detach();
    }
    const Status status = reduce_on(c);
    EXPECT_EQ(status.code(), Code::peer_lost) << status.to_string();
    EXPECT_EQ(status.peer(), 1) << status.to_string();
  });
}

TEST(VerbsJob, ALinkDownIsAnErrorThatNamesThePort) {
  if (link_down.empty()) GTEST_SKIP() << "needs --link-down COMMAND";
  Cluster two = cluster(2, Mode::processes);
  two.options.timeout_s = 30;
  run_ranks(two, [](Communicator& c) {
    std::thread puller;
    if (c.rank() == 0) {
      puller = std::thread([] {
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        EXPECT_EQ(std::system(link_down.c_str()), 0);
      });
    }
    const Status status = reduce_on(c);
    EXPECT_EQ(status.code(), Code::peer_lost) << status.to_string();
    // Which end is to blame neither can know; both ends and their ports are named.
    for (const char* part : {"rank 0", "rank 1", " port 1"})
      EXPECT_NE(status.message().find(part), std::string_view::npos) << status.to_string();
    std::fprintf(stderr, "rank %d: %s\n", c.rank(), status.to_string().c_str());
    if (puller.joinable()) puller.join();
  });
}

}  // namespace
}  // namespace weft::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i + 1 < argc; ++i)
    if (std::string(argv[i]) == "--link-down") weft::test::link_down = argv[i + 1];
  const auto made = weft::make_verbs(weft::TransportConfig());
  if (made.ok()) return RUN_ALL_TESTS();
  std::fprintf(stderr, "%s\n", made.status().to_string().c_str());
  return 77;
}
