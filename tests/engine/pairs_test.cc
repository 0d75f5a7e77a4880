// Sizes that only the two ends of a pair know, where one says nothing, or counts in another type.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/support/cluster.h"

namespace weft::test {
namespace {

class Pairs : public testing::TestWithParam<std::string> {
 protected:
  Cluster cluster(int ranks) const {
    Cluster c{.ranks = ranks, .mode = Mode::threads, .options = {}, .hosts = {}};
    c.options.transport = GetParam();
    c.options.timeout_s = 20;
    return c;
  }
};

// As programs do that send bytes and receive elements.
TEST_P(Pairs, TheTwoEndsOfATransferAgreeOnBytes) {
  run_ranks(cluster(2), [](Communicator& c) {
    const float sent[] = {1.5F, 2.5F};
    uint64_t got = 0;
    Status status = c.rank() == 0 ? c.send(1, sent, 2, DataType::float32)
                                  : c.recv(0, &got, 1, DataType::uint64);
    ASSERT_TRUE(status.ok()) << status.to_string();
    if (c.rank() == 1) {
      EXPECT_EQ(std::memcmp(&got, sent, sizeof got), 0);
    }
    status = c.rank() == 0 ? c.send(1, sent, 1, DataType::float32)
                           : c.recv(0, &got, 1, DataType::uint64);
    if (status.ok()) status = c.barrier();
    EXPECT_EQ(status.code(), Code::mismatch) << status.to_string();
  });
}

INSTANTIATE_TEST_SUITE_P(Media, Pairs, testing::Values("shm", "tcp"));

}  // namespace
}  // namespace weft::test
