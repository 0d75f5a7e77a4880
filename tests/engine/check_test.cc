// Debug mode (Options::check): where it compares does not change when calls return.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <utility>
#include <vector>

#include "tests/support/cluster.h"
#include "tests/support/contains.h"

namespace weft::test {
namespace {

using testing::Values;

class CheckMode : public testing::TestWithParam<std::string> {
 protected:
  Cluster cluster(int ranks, double timeout_s) const {
    Cluster c{.ranks = ranks, .mode = Mode::threads, .options = {}, .hosts = {}};
    c.options.transport = GetParam();
    c.options.timeout_s = timeout_s;
    c.options.check = true;
    return c;
  }
};

TEST_P(CheckMode, KeepsToTheCallsDeadline) {
  std::atomic<bool> done{false};
  run_ranks(cluster(2, 20), [&](Communicator& c) {
    const Deadline patience = Deadline::after(15);
    while (c.rank() == 1 && !done && !patience.expired()) ::usleep(1000);
    if (c.rank() == 1) return;
    const float in[2] = {1, 1};
    float out[4] = {};
    Call call{.kind = Kind::all_gather, .input = in, .output = out, .count = 1};
    call.type = DataType::float32;
    call.timeout_s = 0.5;
    const Deadline late = Deadline::after(8);
    const Status status = c.run(call);
    EXPECT_EQ(status.code(), Code::timeout) << status.to_string();
    EXPECT_FALSE(late.expired());
    done = true;
  });
}

TEST_P(CheckMode, DoesNotMakeStartWait) {
  run_ranks(cluster(2, 8), [](Communicator& c) {
    const std::vector<int32_t> in(100, c.rank() + 1);
    std::vector<int32_t> out(100), all(30, -1);
    const size_t counts[] = {10, 20};
    Call sum{.kind = Kind::all_reduce, .input = in.data(), .output = out.data(), .count = 100};
    sum.type = DataType::int32;
    sum.op = ReduceOp::sum;
    Call gather{.kind = Kind::gather, .input = in.data(), .output = all.data()};
    gather.count = counts[c.rank()];
    gather.type = DataType::int32;
    gather.varying = true;
    if (c.rank() == 0) gather.counts = counts;
    int32_t token = c.rank();
    const auto start_both = [&] { return std::pair(c.start(sum), c.start(gather)); };
    std::pair<Work, Work> works;
    if (c.rank() == 0) {
      works = start_both();
      EXPECT_TRUE(c.recv(1, &token, 1, DataType::int32).ok());
    } else {
      EXPECT_TRUE(c.send(0, &token, 1, DataType::int32).ok());
      works = start_both();
    }
    for (const Work& work : {works.first, works.second})
      EXPECT_TRUE(work.wait().ok()) << work.wait().to_string();
    EXPECT_EQ(token, 1);
    EXPECT_EQ(out[99], 3);
    if (c.rank() == 0) {
      EXPECT_EQ(all[9] * 10 + all[29], 12);
    }
  });
}

TEST_P(CheckMode, ComparesStartedCalls) {
  for (const bool varying : {false, true}) {
    run_ranks(cluster(3, 20), [varying](Communicator& c) {
      const std::vector<int32_t> in(100, 1);
      std::vector<int32_t> out(100, -1);
      const size_t counts[] = {10, 21, 30};  // rank 1 gives 20
      Call call{.kind = Kind::gather, .input = in.data(), .output = out.data()};
      call.type = DataType::int32;
      call.varying = varying;
      call.count = varying ? size_t{10} * (static_cast<size_t>(c.rank()) + 1) : size_t{10};
      if (varying && c.rank() == 0) call.counts = counts;
      if (!varying && c.rank() == 1) call.kind = Kind::scatter;
      const Work work = c.start(call), next = c.start(call);
      EXPECT_EQ(work.wait().code(), Code::mismatch) << work.wait().to_string();
      EXPECT_EQ(next.wait().code(), Code::mismatch) << next.wait().to_string();
      EXPECT_EQ(out[0], -1) << "no data has moved";
      // The others may have told that they cannot go on before the root could say why.
      EXPECT_TRUE(varying ? contains(work.wait(), "expects 21 elements of rank 1") ||
                                contains(work.wait(), "other ranks' counts do not agree")
                          : contains(work.wait(), "scatter(") && contains(work.wait(), "gather("))
          << work.wait().to_string();
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Media, CheckMode, Values("shm", "tcp"),
                         [](const auto& medium) { return medium.param; });

}  // namespace
}  // namespace weft::test
