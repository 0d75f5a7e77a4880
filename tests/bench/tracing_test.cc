#include "bench/tracing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "tests/support/cluster.h"

namespace weft::bench {
namespace {

using test::Cluster;
using test::Mode;

Cluster cluster(int ranks, Mode mode = Mode::threads) {
  return {.ranks = ranks, .mode = mode, .options = {}, .hosts = {}};
}

// With a communicator to be traced, and another one to collect.
void run_two(int ranks, const std::function<void(Communicator&, Communicator&)>& body) {
  test::run_bare_ranks(cluster(ranks), [&](Rendezvous& meet) {
    Options options;
    options.timeout_s = 60;
    const auto control = Communicator::create(meet, options);
    options.algorithm = "ring";
    const auto measured = Communicator::create(meet, options);
    ASSERT_TRUE(control.ok() && measured.ok());
    body(**measured, **control);
  });
}

Status all_reduce(Communicator& c, size_t count) {
  std::vector<float> in(count, 1), out(count);
  return c.all_reduce(in.data(), out.data(), count, DataType::float32, ReduceOp::sum);
}

// Hosts that are one machine have one clock.
TEST(Tracing, ClocksOfOneMachineAgree) {
  Cluster c = cluster(4, Mode::processes);
  c.hosts = {"a", "a", "b", "b"};
  test::run_ranks(c, [](Communicator& communicator) {
    int64_t measured = 0;  // by chance it may be 0 once
    for (int i = 0; i < 5 && measured == 0; ++i) {
      const auto offsets = clock_offsets(communicator);
      ASSERT_TRUE(offsets.ok()) << offsets.status().to_string();
      ASSERT_EQ(offsets->size(), 4u);
      EXPECT_EQ((*offsets)[0], 0);
      EXPECT_EQ((*offsets)[1], 0);
      EXPECT_EQ((*offsets)[2], (*offsets)[3]);
      EXPECT_LT(std::abs((*offsets)[2]), 5'000'000);
      measured = (*offsets)[2];
    }
    EXPECT_NE(measured, 0) << "nothing was measured";
  });
}

TEST(Tracing, OneCallOfEachCaseOneBehindTheOther) {
  run_two(3, [](Communicator& c, Communicator& control) {
    Tracer tracer(c, control);
    ASSERT_TRUE(tracer.add("small", [&] { return all_reduce(c, 48); }).ok());
    ASSERT_TRUE(tracer.add("large", [&] { return all_reduce(c, 3000); }).ok());
    EXPECT_FALSE(tracer.lost_some());
    EXPECT_EQ(tracer.events().empty(), c.rank() != 0);
    if (c.rank() != 0) return;
    std::map<std::pair<std::string, Rank>, int> steps;
    std::string part;
    double least = 1, end_of_small = 0, begin_of_large = 1e9;
    for (const TraceEvent& event : tracer.events()) {
      EXPECT_EQ(event.lane, 0);
      EXPECT_LE(event.begin_s, event.end_s);
      least = std::min(least, event.begin_s);
      if (event.name == "small" || event.name == "large")
        part = event.name;
      else
        ++steps[{part, event.rank}];
      if (part == "small") end_of_small = std::max(end_of_small, event.end_s);
      if (part == "large") begin_of_large = std::min(begin_of_large, event.begin_s);
    }
    EXPECT_EQ(least, 0);
    EXPECT_LT(end_of_small, begin_of_large);
    ASSERT_EQ(steps.size(), 6u);
    for (const auto& [who, count] : steps) EXPECT_EQ(count, 5) << who.first << ' ' << who.second;
  });
}

TEST(Tracing, SaysWhereStepsWereLost) {
  run_two(2, [](Communicator& c, Communicator& control) {
    Tracer tracer(c, control, 2);
    ASSERT_TRUE(tracer.add("some", [&] { return all_reduce(c, 100); }).ok());
    EXPECT_TRUE(tracer.lost_some());
    EXPECT_EQ(tracer.events().size(), c.rank() == 0 ? 6u : 0u);
  });
}

TEST(Tracing, NamesTheFileThatCannotBeWritten) {
  test::run_ranks(cluster(1), [](Communicator& c) {
    const Status status = Tracer(c, c).write("/nowhere/x.json", "t");
    EXPECT_NE(status.message().find("--trace: /nowhere/x.json"), std::string::npos);
  });
}

}  // namespace
}  // namespace weft::bench
