// Measured prices have the right order of magnitude, and communicators choose by them, alike.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "bootstrap/cpus.h"
#include "engine/measure/links.h"
#include "engine/measure/node.h"
#include "engine/tuner/tuning.h"
#include "tests/support/busy_cores.h"
#include "tests/support/cluster.h"
#include "tests/support/sanitized.h"
#include "tests/support/thread_limit.h"

namespace weft::test {
namespace {

constexpr double kBudget = 1;  // that figures are exact is not tested here

// Under a sanitizer, beside compilers, two threads may not come to answer each other in the ten
// seconds that they have: then it says so, and whoever asked tries again.
Result<MeasuredNode> measure_again_and_again(const char* medium) {
  Result<MeasuredNode> measured = measure_node({medium}, kBudget);
  for (int i = 0; i < 2 && kSanitized && measured.status().code() == Code::timeout; ++i)
    measured = measure_node({medium}, kBudget);
  return measured;
}

class Measure : public testing::TestWithParam<const char*> {};

TEST_P(Measure, GivesPricesOfTheirKind) {
  const Result<MeasuredNode> measured = measure_again_and_again(GetParam());
  ASSERT_TRUE(measured.ok()) << measured.status().to_string();
  ASSERT_EQ(measured->networks.size(), 1u);
  const Network& n = measured->networks.front();
  EXPECT_EQ(n.name, GetParam());
  EXPECT_GE(n.node_cores, 1);
  EXPECT_GT(n.step_s, 0);
  EXPECT_LT(n.step_s, 1e-4);
  EXPECT_GT(n.short_step_s, 0);
  EXPECT_LT(n.short_step_s, 4 * n.step_s);  // shorter, where nothing else runs on the machine
  EXPECT_GT(n.switch_s, 0);
  EXPECT_GE(n.switch_spread_s, 0);
  EXPECT_EQ(n.inside.patience_s > 0,
            GetParam() == std::string_view("shm"));  // see Transport::running()
  EXPECT_LT(n.inside.patience_s, 1e-3);
  EXPECT_GT(n.inside.recv_s + n.inside.latency_s + n.inside.send_s, 1e-9);
  EXPECT_LT(n.inside.recv_s + n.inside.latency_s + n.inside.send_s, 0.1);
  EXPECT_GE(n.inside.signal_s, 0);
  EXPECT_LT(n.inside.signal_s, GetParam() == std::string_view("shm") ? 1e-3 : 1e-12);
  EXPECT_FALSE(n.inside.rank_rates.empty());
  EXPECT_EQ(n.inside.window_rates.empty(), GetParam() != std::string_view("shm"));
  EXPECT_EQ(n.inside.rank_one_way_rates.size(), n.inside.rank_rates.size());
  EXPECT_EQ(n.inside.window_one_way_rates.size(), n.inside.window_rates.size());
  EXPECT_LE(n.inside.send_tail_s, n.inside.send_s);
  if (GetParam() == std::string_view("tcp")) {
    EXPECT_EQ(n.inside.latency_s, 0);
  }
  EXPECT_GT(n.inside.poll_s, 0);
  EXPECT_LT(n.inside.poll_s, 1e-3);
  for (const auto& rates : {n.inside.rank_rates, n.inside.window_rates, n.inside.rank_one_way_rates,
                            n.inside.window_one_way_rates})
    for (const Rate& r : rates) EXPECT_TRUE(r.rate > 1e6 && r.rate < 1e13) << r.rate;
  ASSERT_GE(n.memory.size(), 4u);
  double copies = 0;
  for (const Rate& m : n.memory) {
    EXPECT_GT(m.rate, 1e7);
    copies = std::max(copies, m.rate);
  }
  for (const auto& rates : {n.inside.rank_rates, n.inside.window_rates, n.inside.rank_one_way_rates,
                            n.inside.window_one_way_rates})
    for (const Rate& r : rates) EXPECT_LE(r.rate, copies * (1 + 1e-6)) << r.bytes;
  EXPECT_EQ(to_json(*network_from_json(to_json(n))), to_json(n));
}

INSTANTIATE_TEST_SUITE_P(Media, Measure, testing::Values("shm", "tcp"));

// Where both ends of a link have to take turns.
TEST(Measure, DoesWithOneCore) {
  if (kSanitized) GTEST_SKIP() << "it takes half a minute";
  for (const char* transport : {"shm", "tcp"})
    std::thread([&] {
      bind_to_cpu(cpus_core_by_core().front());
      const Result<MeasuredNode> measured = measure_node({transport}, kBudget);
      ASSERT_TRUE(measured.ok()) << measured.status().to_string();
      EXPECT_EQ(measured->networks.front().node_cores, 1);
      EXPECT_GT(rate_at(measured->networks.front().inside.rank_rates, 1), 1e6);
    }).join();
}

// A thread on every core that never rests has about half of each.
TEST(Measure, SaysWhereOthersHadTheCores) {
  if (kSanitized) GTEST_SKIP() << "it takes half a minute";
  const BusyCores others(1);
  const Result<MeasuredNode> measured = measure_node({"shm"}, kBudget);
  ASSERT_TRUE(measured.ok()) << measured.status().to_string();
  EXPECT_GT(measured->share, 0);
  if (measured->networks.front().node_cores > 1) {
    EXPECT_LT(measured->share, 0.8);
  }
}

// 2 bytes take 5 seconds and 4 bytes 1: noise.
TEST(MeasuredRates, LetNoMessageTakeLessThanAShorterOne) {
  const std::vector<Rate> found =
      measuring::in_order({{1, 1}, {2, 0.4}, {4, 4}, {8, 1}, {16, 1.6}});
  ASSERT_EQ(found.size(), 5u);
  const double seconds[] = {1, 3, 3, 8, 10};
  for (size_t i = 0; i < 5; ++i) EXPECT_DOUBLE_EQ(found[i].bytes / found[i].rate, seconds[i]) << i;
}

TEST(MeasuredRates, StayWhereTheyAreInOrder) {
  const std::vector<Rate> rates{{1, 2}, {2, 1}, {3, 1.5}, {4, 1}};
  EXPECT_EQ(measuring::in_order(rates), rates);
  EXPECT_TRUE(measuring::in_order({}).empty());
  const std::vector<Rate> shrinking = measuring::in_order({{1, 0.25}, {2, 1}, {4, 4}});
  for (const Rate& rate : shrinking) EXPECT_DOUBLE_EQ(rate.bytes / rate.rate, 7.0 / 3);
}

// 512 bytes seem to take no time: noise, which only the next length can tell.
TEST(MeasuredRates, OfTheFirstLengthAreOfTheKindOfTheNext) {
  const std::vector<Rate> found = measuring::in_order({{512, 2500e9}, {1024, 1e9}, {2048, 2e9}});
  EXPECT_DOUBLE_EQ(found[0].rate, 8e9);
  EXPECT_DOUBLE_EQ(found[1].rate, 1e9);
  EXPECT_DOUBLE_EQ(found[2].rate, 2e9);
}

TEST(Measure, AnUnknownMediumIsNamed) {
  EXPECT_NE(measure_node({"pigeon"}).status().message().find("pigeon"), std::string_view::npos);
}

TEST(Measure, NeedsThreads) {
  const ThreadLimit none(0);
  if (!none.holds()) GTEST_SKIP() << "the limit on threads does not hold here";
  const Result<MeasuredNode> measured = measure_node({"shm"}, kBudget);
  EXPECT_EQ(measured.status().code(), Code::system) << measured.status().to_string();
}

class Priced : public testing::Test {
 protected:
  Priced() : path_(concat_path()) {}
  ~Priced() override { std::filesystem::remove(path_); }
  static std::string concat_path() {
    return (std::filesystem::temp_directory_path() /
            ("weft-priced-" + std::to_string(::getpid()) + ".json"))
        .string();
  }
  const std::string path_;
};

TEST_F(Priced, RanksChooseAlikeByWhatRankZeroKnows) {
  Tuning tuning{"here", *find_example_network("node"), *find_example_network("node")};
  tuning.shm.inside.latency_s = tuning.tcp.inside.latency_s = 1;  // the fewest hops win
  ASSERT_TRUE(write_tuning(tuning, path_).ok());
  Cluster cluster{.ranks = 5, .mode = Mode::processes, .options = {}, .hosts = {}};
  cluster.options.tuning = path_;
  cluster.options.transport = "tcp";
  run_ranks(cluster, [](Communicator& c) {
    std::vector<float> in(100'000, 1), out(in.size());
    const Call call{.kind = Kind::all_reduce,
                    .input = in.data(),
                    .output = out.data(),
                    .count = in.size(),
                    .type = DataType::float32};
    ASSERT_TRUE(c.run(call).ok());
    EXPECT_EQ(out.back(), 5);
    const auto info = c.explain(call);
    ASSERT_TRUE(info.ok());
    ASSERT_FALSE(info->prices.empty());
    EXPECT_EQ(info->algorithm, info->prices.front().algorithm);
    EXPECT_NE(info->algorithm, "ring");  // which the table takes
  });
}

TEST_F(Priced, AFileThatIsNoneIsAnErrorOnAllRanks) {
  Cluster cluster{.ranks = 3, .mode = Mode::threads, .options = {}, .hosts = {}};
  cluster.options.tuning = path_;  // not written
  run_bare_ranks(cluster, [&](Rendezvous& meet) {
    const auto made = Communicator::create(meet, cluster.options);
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.status().code(), Code::invalid_argument);
    EXPECT_NE(made.status().message().find(path_), std::string_view::npos)
        << made.status().message();
  });
}

TEST_F(Priced, OffMeansByTable) {
  Cluster cluster{.ranks = 2, .mode = Mode::threads, .options = {}, .hosts = {}};
  cluster.options.tuning = "off";
  run_ranks(cluster, [](Communicator& c) {
    const float in = 1;
    float out = 0;
    const auto info = c.explain({.kind = Kind::all_reduce,
                                 .input = &in,
                                 .output = &out,
                                 .count = 1,
                                 .type = DataType::float32});
    ASSERT_TRUE(info.ok());
    EXPECT_TRUE(info->prices.empty());
  });
}

}  // namespace
}  // namespace weft::test
