// Sizes that only the two ends of a pair know, where one says nothing, or counts in another type.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <latch>
#include <span>
#include <vector>

#include "tests/support/cluster.h"
#include "tests/support/seconds.h"

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

// A call in which rank 0 has no elements for, or from, rank 1, and rank 1 has five.
Status run_none_against_five(Communicator& c, Kind kind, bool sends) {
  std::array<int32_t, 16> in{}, out{};
  const size_t mine[] = {1, c.rank() == 0 ? size_t{0} : size_t{1}};
  const size_t none[] = {c.rank() == 0 ? size_t{1} : size_t{0}, 1};
  const size_t five[] = {5, 1};
  Call call{.kind = kind, .input = in.data(), .output = out.data(), .count = 5};
  call.type = DataType::int32;
  call.varying = true;
  call.counts = c.rank() == 0 ? mine : sends ? five : none;
  call.recv_counts = c.rank() == 0 ? mine : sends ? none : five;
  return c.run(call);
}

TEST_P(Pairs, NoElementsAgainstSomeAreReported) {
  struct Case {
    Kind kind;
    bool sends;
  };
  for (const Case& at : {Case{Kind::gather, true}, Case{Kind::scatter, true},
                         Case{Kind::all_to_all, true}, Case{Kind::all_to_all, false}})
    run_ranks(cluster(2), [&](Communicator& c) {
      Status status;
      const double took = seconds_of([&] {
        status = run_none_against_five(c, at.kind, at.sends);
        if (status.ok()) status = c.barrier();  // what it sent is on its way, and is refused
      });
      EXPECT_EQ(status.code(), Code::mismatch) << name(at.kind) << ": " << status.to_string();
      EXPECT_LT(took, 5) << name(at.kind);
    });
}

TEST_P(Pairs, NoElementsAgainstSomeAreReportedInGroups) {
  for (const size_t sent : {size_t{0}, size_t{5}})
    run_ranks(cluster(2), [&](Communicator& c) {
      std::array<int32_t, 5> data{};
      Status status;
      const double took = seconds_of([&] {
        status = c.rank() == 0 ? c.send(1, data.data(), sent, DataType::int32)
                               : c.recv(0, data.data(), 5 - sent, DataType::int32);
        if (status.ok()) status = c.barrier();
      });
      EXPECT_EQ(status.code(), Code::mismatch) << status.to_string();
      EXPECT_LT(took, 5);
    });
}

TEST_P(Pairs, NoElementsOnBothEndsAreACallLikeAny) {
  run_ranks(cluster(3), [](Communicator& c) {
    const size_t zeros[3] = {};
    for (int i = 0; i < 3; ++i) {
      for (const Kind kind : {Kind::all_gather, Kind::reduce_scatter, Kind::gather, Kind::scatter,
                              Kind::all_to_all}) {
        Call call{.kind = kind, .type = DataType::int32, .varying = true};
        call.counts = call.recv_counts = zeros;
        const Status status = c.run(call);
        ASSERT_TRUE(status.ok()) << name(kind) << ": " << status.to_string();
      }
      const Rank next = (c.rank() + 1) % 3, before = (c.rank() + 2) % 3;
      int32_t sent = c.rank(), got = -1;
      const Transfer group[] = {send_to(next, nullptr, 0, DataType::int32),
                                send_to(next, &sent, 1, DataType::int32),
                                send_to(c.rank(), nullptr, 0, DataType::int32),
                                receive_from(c.rank(), nullptr, 0, DataType::int32),
                                receive_from(before, nullptr, 0, DataType::int32),
                                receive_from(before, &got, 1, DataType::int32)};
      const Status status = c.run(group);
      ASSERT_TRUE(status.ok()) << status.to_string();
      EXPECT_EQ(got, before);
    }
  });
}

// Messages of no elements between large ones, which may go from memory to memory.
TEST_P(Pairs, SomeHaveNoElementsNowAndThen) {
  run_ranks(cluster(3), [](Communicator& c) {
    constexpr size_t kMany = 50'000;
    for (int i = 0; i < 6; ++i) {
      std::vector<size_t> counts(3), recv_counts(3);
      const auto count = [&](Rank from, Rank to) { return (from + 2 * to + i) % 3 * kMany; };
      for (Rank r = 0; r < 3; ++r) {
        counts[static_cast<size_t>(r)] = count(c.rank(), r);
        recv_counts[static_cast<size_t>(r)] = count(r, c.rank());
      }
      const std::vector<int32_t> in(6 * kMany, c.rank());
      std::vector<int32_t> out(6 * kMany, -1), wanted;
      Call call{.kind = Kind::all_to_all, .input = in.data(), .output = out.data()};
      call.type = DataType::int32;
      call.varying = true;
      call.counts = counts;
      call.recv_counts = recv_counts;
      const Status status = c.run(call);
      ASSERT_TRUE(status.ok()) << status.to_string();
      for (Rank r = 0; r < 3; ++r) wanted.insert(wanted.end(), count(r, c.rank()), r);
      wanted.resize(out.size(), -1);
      ASSERT_EQ(out, wanted);
    }
  });
}

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

// No transport leads from host to host: what cannot be planned leaves nothing behind for the next
// call. In that one, a reduce by a tree, rank 0 would need rank 1, and only it cannot take part.
TEST(PairsWithoutAWay, AGroupThatNothingLeadsToIsForgotten) {
  Cluster cluster;
  cluster.ranks = 4;
  cluster.hosts = {"a", "b", "a", "a"};
  cluster.options.transport = "shm";
  cluster.options.algorithm = "knomial";
  std::latch done(1);
  run_ranks(cluster, [&done](Communicator& c) {
    std::vector<int32_t> memory(100, 1);
    Call call{.kind = Kind::reduce, .input = memory.data(), .count = memory.size()};
    call.type = DataType::int32;
    call.timeout_s = 5;
    if (c.rank() == 2) (void)c.run(call);  // takes rank 3's part, and waits for rank 0
    if (c.rank() != 3) return done.wait();
    const Transfer far{Transfer::Direction::send, 1, memory.data(), 100, DataType::int32};
    const Status unplanned = c.run(std::span(&far, 1));
    EXPECT_EQ(unplanned.code(), Code::unsupported) << unplanned.to_string();
    const Status leaf = c.run(call);
    EXPECT_TRUE(leaf.ok()) << leaf.to_string();
    done.count_down();
  });
}

INSTANTIATE_TEST_SUITE_P(Media, Pairs, testing::Values("shm", "tcp"));

}  // namespace
}  // namespace weft::test
