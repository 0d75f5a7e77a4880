// Much at once, and again and again: nothing may grow, nothing may wait for what it does not need.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>

#include "tests/support/cluster.h"
#include "tests/support/sanitized.h"

namespace weft::test {
namespace {

using testing::Values;

constexpr int kScale = kSanitized ? 10 : 1;

class Overload : public testing::TestWithParam<std::string> {
 protected:
  Cluster cluster(int ranks, Mode mode) const {
    Cluster c{.ranks = ranks, .mode = mode, .options = {}, .hosts = {}};
    c.options.transport = GetParam();
    return c;
  }
};

size_t entries(const char* folder) {
  const std::filesystem::directory_iterator all(folder);
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

// What a process holds.
struct Held {
  size_t descriptors = entries("/proc/self/fd");
  size_t threads = entries("/proc/self/task");
  size_t kilobytes = memory();

  static size_t memory() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("RssAnon:")) return std::stoul(line.substr(8));
    return 0;
  }
};

// A life of a communicator: blocking and asynchronous calls, and one split off it.
void live(Communicator& c) {
  int one = 1, sum = 0, other = 0;
  ASSERT_TRUE(c.all_reduce(&one, &sum, 1, DataType::int32, ReduceOp::sum).ok());
  ASSERT_EQ(sum, c.size());
  const Work work = c.start(Call{.kind = Kind::all_reduce,
                                 .input = &one,
                                 .output = &other,
                                 .count = 1,
                                 .type = DataType::int32});
  ASSERT_TRUE(work.wait().ok());
  ASSERT_EQ(other, c.size());
}

// So many are made, used and destroyed, and leave nothing.
void come_and_go(Communicator& c, int cycles) {
  Held settled;
  for (int i = 0; i < cycles; ++i) {
    auto part = c.split(0, c.rank());
    ASSERT_TRUE(part.ok()) << "cycle " << i << ": " << part.status().to_string();
    live(**part);
    if (testing::Test::HasFatalFailure()) return;
    part->reset();
    if (i == cycles / 4) settled = Held();
  }
  const Held now;
  EXPECT_LE(now.descriptors, settled.descriptors);
  EXPECT_LE(now.threads, settled.threads);
  if (kScale == 1) {  // sanitizers keep what was freed
    EXPECT_LT(now.kilobytes, settled.kilobytes + 2048) << "it was " << settled.kilobytes << " KiB";
  }
}

TEST_P(Overload, CommunicatorsComeAndGo) {
  run_ranks(cluster(2, Mode::processes), [](Communicator& c) { come_and_go(c, 500 / kScale); });
}

// Among the slow tests.
TEST_P(Overload, DISABLED_TenThousandCommunicatorsComeAndGo) {
  Cluster patient = cluster(2, Mode::processes);
  patient.give_up_s = 500;
  run_ranks(patient, [](Communicator& c) { come_and_go(c, 10'000); });
}

TEST_P(Overload, ThousandsOfCallsMayBeUnderWay) {
  run_ranks(cluster(3, Mode::threads), [](Communicator& c) {
    const int calls = 5000 / kScale;
    std::vector<int> in(static_cast<size_t>(calls)), out(in.size(), -1);
    std::iota(in.begin(), in.end(), c.rank());
    std::vector<Work> works;
    for (size_t i = 0; i < in.size(); ++i)
      works.push_back(c.start(Call{.kind = Kind::all_reduce,
                                   .input = &in[i],
                                   .output = &out[i],
                                   .count = 1,
                                   .type = DataType::int32}));
    for (size_t i = 0; i < works.size(); ++i) {
      const Status status = works[i].wait();
      ASSERT_TRUE(status.ok()) << status.to_string();
      ASSERT_EQ(out[i], 3 * static_cast<int>(i) + 3);
    }
  });
}

// Each communicator's calls are in the same order on all ranks, those of different ones are not.
TEST_P(Overload, AHundredCommunicatorsInAnyOrder) {
  run_ranks(cluster(3, Mode::threads), [](Communicator& c) {
    const size_t count = 100 / kScale;
    std::vector<std::unique_ptr<Communicator>> all;
    for (size_t i = 0; i < count; ++i) {
      auto part = c.split(0, c.rank());
      ASSERT_TRUE(part.ok()) << part.status().to_string();
      all.push_back(part.take());
    }
    std::vector<size_t> order(count);
    std::iota(order.begin(), order.end(), 0);
    std::mt19937 random(static_cast<uint32_t>(c.rank()));
    for (int round = 0; round < 3; ++round) {
      std::shuffle(order.begin(), order.end(), random);
      std::vector<int> in(count), out(count, -1);
      std::vector<Work> works(count);
      for (const size_t i : order) {
        in[i] = c.rank() + static_cast<int>(i);
        works[i] = all[i]->start(Call{.kind = Kind::all_reduce,
                                      .input = &in[i],
                                      .output = &out[i],
                                      .count = 1,
                                      .type = DataType::int32});
      }
      std::shuffle(order.begin(), order.end(), random);
      for (const size_t i : order) {
        const Status status = works[i].wait();
        ASSERT_TRUE(status.ok()) << status.to_string();
        ASSERT_EQ(out[i], 3 + 3 * static_cast<int>(i));
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Media, Overload, Values("shm", "tcp"),
                         [](const auto& medium) { return medium.param; });

}  // namespace
}  // namespace weft::test
