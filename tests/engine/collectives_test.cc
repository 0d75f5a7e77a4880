// Every collective with every algorithm that serves it, on real memory, against the naive oracle.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "engine/algorithms/algorithm.h"
#include "tests/support/cluster.h"
#include "tests/support/oracle.h"
#include "tests/support/sanitized.h"

namespace weft::test {
namespace {

std::vector<int> ranks_to_try(std::vector<int> all) {
  if (kSanitized) all = {2, 3};
  return all;
}

struct Setting {
  Mode mode;
  std::string transport;
  size_t slot;  // 0: default
  int lanes;
};

std::string setting_name(const testing::TestParamInfo<Setting>& info) {
  const Setting& s = info.param;
  return name(s.mode) + "_" + s.transport + (s.slot ? "_slot" + std::to_string(s.slot) : "") +
         (s.lanes > 1 ? "_lanes" + std::to_string(s.lanes) : "");
}

class Collectives : public testing::TestWithParam<Setting> {
 protected:
  Cluster cluster(int ranks) const {
    Cluster c{.ranks = ranks, .mode = GetParam().mode, .options = {}, .hosts = {}};
    c.options.transport = GetParam().transport;
    c.options.slot_bytes = GetParam().slot;
    c.options.lanes = GetParam().lanes;
    return c;
  }
  // Elements worth sending: with small slots, few make many rounds already.
  size_t largest() const {
    const size_t all = GetParam().slot == 0 ? 100000 : GetParam().slot * 8;
    return kSanitized ? std::min<size_t>(all, 5000) : all;
  }
};

const Kind kMoving[] = {Kind::all_reduce,     Kind::reduce, Kind::broadcast, Kind::all_gather,
                        Kind::reduce_scatter, Kind::gather, Kind::scatter,   Kind::all_to_all};

void all_forms(Communicator& c, Kind kind, size_t count, uint64_t salt) {
  for (Rank root = 0; root < (has_root(kind) ? c.size() : 1); ++root)
    for (const bool in_place : {false, true}) {
      const Shape shape{.kind = kind, .ranks = c.size(), .root = root, .count = count};
      ASSERT_EQ(run_and_compare(c, shape, in_place, salt, (count + root) % 5), "");
    }
}

TEST_P(Collectives, DefaultsGiveWhatTheOracleGives) {
  for (const int ranks : ranks_to_try({1, 2, 3, 4, 5, 7, 8}))
    run_ranks(cluster(ranks), [largest = largest()](Communicator& c) {
      uint64_t salt = 0;
      for (const size_t count : {1, 2, 13, 14, 15, 127, 128, 129, 1000, 4099, 40000})
        if (count <= largest)
          for (const Kind kind : kMoving) all_forms(c, kind, count, ++salt);
      ASSERT_TRUE(c.barrier().ok());
    });
}

TEST_P(Collectives, EveryAlgorithmGivesWhatTheOracleGives) {
  for (const Algorithm& algorithm : catalog())
    for (const int ranks : kSanitized ? std::vector{3} : std::vector{2, 3, 6}) {
      Cluster c = cluster(ranks);
      if (algorithm.windows && c.options.transport != "shm") continue;
      if (algorithm.name == "exchange" || algorithm.registered) continue;  // registered_test
      c.options.algorithm = algorithm.name;
      if (algorithm.readable) c.options.algorithm += ",auto";  // not all_to_all in place
      c.options.radix = algorithm.radix ? 3 : 0;
      run_ranks(c, [&algorithm, largest = largest()](Communicator& communicator) {
        uint64_t salt = 0;
        for (const size_t count : {1, 17, 4000, 70001})
          for (const Kind kind : kMoving)
            if (count <= largest && algorithm.suits({kind, communicator.size(), 0, false}))
              all_forms(communicator, kind, count, ++salt);
      });
    }
}

// Uneven counts, zeros among them, the same for every rank that knows them.
Shape random_shape(Kind kind, int ranks, uint64_t seed) {
  std::mt19937_64 random(seed);
  Shape shape{
      .kind = kind, .ranks = ranks, .root = static_cast<Rank>(random() % ranks), .varying = true};
  const size_t blocks = kind == Kind::all_to_all ? size_t(ranks) * ranks : size_t(ranks);
  for (size_t b = 0; b < blocks; ++b)
    shape.counts.push_back(random() % 3 == 0 ? 0 : random() % 3000);
  return shape;
}

TEST_P(Collectives, VaryingCounts) {
  for (const int ranks : ranks_to_try({1, 2, 3, 5, 8}))
    run_ranks(cluster(ranks), [](Communicator& c) {
      uint64_t seed = 0;
      for (int i = 0; i < 10; ++i)
        for (const Kind kind : {Kind::all_gather, Kind::reduce_scatter, Kind::gather, Kind::scatter,
                                Kind::all_to_all}) {
          const Shape shape = random_shape(kind, c.size(), ++seed);
          ASSERT_EQ(run_and_compare(c, shape, false, seed), "");
          if (kind != Kind::all_to_all) {
            ASSERT_EQ(run_and_compare(c, shape, true, seed + 100), "");
          }
        }
    });
}

// Random plans one after the other, sizes from one line to many rounds: leases, links and cells
// carry over from call to call.
TEST_P(Collectives, SequencesOfDifferentCalls) {
  for (const int ranks : ranks_to_try({2, 3, 5}))
    run_ranks(cluster(ranks), [largest = largest()](Communicator& c) {
      std::mt19937_64 random(7);
      for (int i = 0; i < (kSanitized ? 60 : 300); ++i) {
        const Kind kind = kMoving[random() % std::size(kMoving)];
        const size_t count = random() % 10 == 0 ? random() % largest : random() % 200;
        const Rank root = static_cast<Rank>(random() % c.size());
        const bool in_place = random() % 2 == 0;
        const Shape shape{
            .kind = kind, .ranks = c.size(), .root = has_root(kind) ? root : 0, .count = count};
        ASSERT_EQ(run_and_compare(c, shape, in_place, i), "") << "call " << i;
      }
    });
}

TEST_P(Collectives, GroupsInRandomOrder) {
  for (const int ranks : ranks_to_try({1, 2, 3, 5}))
    run_ranks(cluster(ranks), [ranks](Communicator& c) {
      for (uint64_t seed = 0; seed < (kSanitized ? 5 : 20); ++seed) {
        // The same table on all ranks: counts[from][to] of up to two messages per pair.
        std::mt19937_64 shared(seed);
        std::vector<std::vector<size_t>> counts(ranks * ranks);
        for (auto& pair : counts)
          for (uint64_t k = shared() % 3; k > 0; --k) pair.push_back(shared() % 30000);
        std::vector<std::vector<int32_t>> memory;
        struct Wanted {
          size_t buffer;
          Rank from;
          uint64_t salt;
        };
        std::vector<Wanted> wanted;
        struct Item {
          Transfer transfer;
          size_t buffer;
        };
        std::vector<Item> items;
        for (Rank p = 0; p < ranks; ++p) {
          for (size_t k = 0; k < counts[c.rank() * ranks + p].size(); ++k) {
            const size_t n = counts[c.rank() * ranks + p][k];
            memory.emplace_back(n);
            for (size_t i = 0; i < n; ++i)
              memory.back()[i] = element(c.rank(), i, seed * 100 + p * 2 + k);
            items.push_back({send_to(p, nullptr, n, DataType::int32), memory.size() - 1});
          }
          for (size_t k = 0; k < counts[p * ranks + c.rank()].size(); ++k) {
            const size_t n = counts[p * ranks + c.rank()][k];
            memory.emplace_back(n, -1);
            wanted.push_back({memory.size() - 1, p, seed * 100 + c.rank() * 2 + k});
            items.push_back({receive_from(p, nullptr, n, DataType::int32), memory.size() - 1});
          }
        }
        // Peers in random order, but the transfers with one peer in one direction stay in order.
        std::mt19937_64 own(seed * 31 + c.rank());
        std::vector<Rank> order(ranks);
        for (Rank p = 0; p < ranks; ++p) order[p] = p;
        std::shuffle(order.begin(), order.end(), own);
        std::stable_sort(items.begin(), items.end(), [&order](const Item& a, const Item& b) {
          return order[a.transfer.peer] < order[b.transfer.peer];
        });
        std::vector<Transfer> group;
        for (Item& item : items) {
          item.transfer.memory = memory[item.buffer].data();
          group.push_back(item.transfer);
        }
        const Status status = c.run(group);
        ASSERT_TRUE(status.ok()) << status.to_string();
        for (const Wanted& w : wanted)
          for (size_t i = 0; i < memory[w.buffer].size(); ++i)
            ASSERT_EQ(memory[w.buffer][i], element(w.from, i, w.salt)) << "from " << w.from;
      }
    });
}

TEST_P(Collectives, ZeroCountsReturnAtOnce) {
  run_ranks(cluster(3), [](Communicator& c) {
    for (const Kind kind : kMoving)
      ASSERT_TRUE(c.run({.kind = kind, .count = 0, .type = DataType::float32}).ok());
  });
}

// The engine's own calls do not follow the user's wishes about algorithms.
TEST(Split, WorksBesideAnAlgorithmThatServesAllReduceOnly) {
  Cluster cluster{.ranks = 3, .mode = Mode::threads, .options = {}, .hosts = {}};
  cluster.options.algorithm = "double_tree";
  run_ranks(cluster, [](Communicator& c) {
    auto all = c.split(0, 0);
    ASSERT_TRUE(all.ok()) << all.status().to_string();
    ASSERT_EQ((*all)->size(), 3);
  });
}

TEST_P(Collectives, SplitIntoGroupsThatWork) {
  run_ranks(cluster(6), [](Communicator& c) {
    auto half = c.split(c.rank() % 2, -c.rank());
    ASSERT_TRUE(half.ok()) << half.status().to_string();
    ASSERT_EQ((*half)->size(), 3);
    ASSERT_EQ((*half)->rank(), 2 - c.rank() / 2);
    const Shape shape{.kind = Kind::all_reduce, .ranks = 3, .count = 1000};
    ASSERT_EQ(run_and_compare(**half, shape, false, 1), "");
    auto some = c.split(c.rank() < 2 ? 0 : -1, 0);
    ASSERT_TRUE(some.ok()) << some.status().to_string();
    ASSERT_EQ(*some == nullptr, c.rank() >= 2);
    ASSERT_TRUE(c.barrier().ok());
  });
}

std::vector<Setting> settings() {
  std::vector<Setting> all = {{Mode::threads, "shm", 0, 1},   {Mode::threads, "tcp", 0, 1},
                              {Mode::threads, "shm", 512, 1}, {Mode::threads, "tcp", 512, 1},
                              {Mode::threads, "shm", 512, 3}, {Mode::threads, "tcp", 4096, 2}};
  if (!kSeesThreadsOnly)
    for (const char* const transport : {"shm", "tcp"})
      all.push_back({Mode::processes, transport, 0, 1});
  return all;
}
INSTANTIATE_TEST_SUITE_P(Media, Collectives, testing::ValuesIn(settings()), setting_name);

// Two hosts of three and two ranks: shared memory inside, TCP between.
TEST(CollectivesAcrossHosts, MixedMedia) {
  for (const Mode mode : {Mode::threads, Mode::processes}) {
    if (kSeesThreadsOnly && mode == Mode::processes) continue;
    Cluster cluster{.ranks = 5, .mode = mode, .options = {}, .hosts = {"a", "b", "a", "b", "a"}};
    run_ranks(cluster, [](Communicator& c) {
      EXPECT_EQ(c.host_of_rank(), (std::vector<int>{0, 1, 0, 1, 0}));
      uint64_t salt = 0;
      for (const size_t count : {1, 100, 50000})
        for (const Kind kind : kMoving) all_forms(c, kind, count, ++salt);
    });
  }
}

}  // namespace
}  // namespace weft::test
