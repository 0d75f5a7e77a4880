// Wrong arguments, ranks that disagree, die, abort or never come: a clear error everywhere, in
// time.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <latch>
#include <limits>
#include <memory>
#include <thread>

#include "tests/support/cluster.h"
#include "tests/support/contains.h"
#include "tests/support/seconds.h"

namespace weft::test {
namespace {

using testing::Values;

class Misuse : public testing::TestWithParam<std::string> {
 protected:
  Cluster cluster(int ranks, Mode mode = Mode::threads) const {
    Cluster c{.ranks = ranks, .mode = mode, .options = {}, .hosts = {}};
    c.options.transport = GetParam();
    c.options.timeout_s = 20;
    return c;
  }
};

// Blocks of eleven ranks come in one message; half a link holds 64 bytes.
TEST_P(Misuse, MessagesThatDoNotFitLinksAreRefused) {
  Cluster small = cluster(12);
  small.options.algorithm = "halving_doubling";
  small.options.slot_bytes = 64;
  small.options.slots = 2;
  run_ranks(small, [](Communicator& c) {
    std::vector<double> in(5, c.rank()), out(60);
    const Status status = c.all_gather(in.data(), out.data(), 5, DataType::float64);
    EXPECT_EQ(status.code(), Code::unsupported);
    EXPECT_TRUE(contains(status, "halving_doubling sends up to 11 chunks") &&
                contains(status, "2 slots of 64 bytes are too small; use larger slots"))
        << status.to_string();
    ASSERT_TRUE(c.all_gather(in.data(), out.data(), 10, DataType::float32).ok());
    for (Rank r = 0; r < 12; ++r) EXPECT_EQ(out[static_cast<size_t>(r) * 5], r);
  });
}

// A call like the one before skips what that one went through, but not where it differs.
TEST_P(Misuse, CallsThatNearlyRepeatTheLastOneAreTheirOwn) {
  run_ranks(cluster(2), [](Communicator& c) {
    constexpr float kTwo = 2;
    const float mine = static_cast<float>(c.rank() + 1);
    float in[2] = {mine, 10 * mine}, out[2] = {0, 0};
    const auto call = [&](const void* input, void* output, size_t count, ReduceOp op) {
      return c.all_reduce(input, output, count, DataType::float32, op);
    };
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(call(in, out, 2, ReduceOp::sum).ok());
      EXPECT_EQ(out[0] + out[1], 33);
      EXPECT_TRUE(contains(call(nullptr, out, 2, ReduceOp::sum), "input is null"));
      ASSERT_TRUE(call(in, out, 2, ReduceOp::sum).ok());
      EXPECT_TRUE(contains(call(in, nullptr, 2, ReduceOp::sum), "output is null"));
      ASSERT_TRUE(call(in, out, 2, ReduceOp::max).ok());
      EXPECT_EQ(out[1], 20);
      Call scaled{.kind = Kind::all_reduce, .input = in, .output = out, .count = 2};
      scaled.type = DataType::float32;
      scaled.op = ReduceOp::premulsum;
      scaled.scalar = &kTwo;
      ASSERT_TRUE(c.run(scaled).ok());
      EXPECT_EQ(out[0] + out[1], 66);
      scaled.scalar = nullptr;
      EXPECT_TRUE(contains(c.run(scaled), "scalar is null"));
      Call timed{.kind = Kind::all_reduce, .input = in, .output = out, .count = 2};
      for (const double timeout_s : {0.0, 5.0, -5.0, std::numeric_limits<double>::quiet_NaN()}) {
        timed.timeout_s = timeout_s;
        EXPECT_EQ(c.run(timed).code(), timeout_s >= 0 ? Code::ok : Code::invalid_argument)
            << timeout_s;
      }
      ASSERT_TRUE(call(in, out, 0, ReduceOp::max).ok());
      ASSERT_TRUE(call(in, out, 1, ReduceOp::max).ok());
      ASSERT_TRUE(c.broadcast(in, out, 1, DataType::float32, 1).ok());
      EXPECT_EQ(out[0], 2);
      ASSERT_TRUE(c.broadcast(in, out, 1, DataType::float32, 0).ok());
      EXPECT_EQ(out[0], 1);
      EXPECT_TRUE(contains(c.broadcast(in, out, 1, DataType::float32, 2), "root is 2"));
      float block[2] = {0, 0};  // alternately in place
      block[c.rank()] = mine;
      ASSERT_TRUE(c.all_gather(in, out, 1, DataType::float32).ok());
      ASSERT_TRUE(c.all_gather(block + c.rank(), block, 1, DataType::float32).ok());
      EXPECT_EQ(block[0] * 10 + block[1], 12);
      out[0] = out[1] = 0;
      ASSERT_TRUE(c.all_gather(in, out, 1, DataType::float32).ok());
      EXPECT_EQ(out[0] * 10 + out[1], 12);
      ASSERT_TRUE(c.barrier().ok());
    }
  });
}

// As MPI has it: away from the root only `count` is looked at.
TEST_P(Misuse, CountsAwayFromTheRootSayNothing) {
  run_ranks(cluster(3), [](Communicator& c) {
    const std::vector<size_t> real{1, 2, 3}, zeros(3), offsets{5, 3, 0};
    const size_t stray = 7;
    const size_t own = real[static_cast<size_t>(c.rank())];
    for (const bool given : {true, false}) {
      const std::vector<int> mine(own, c.rank() + 1);
      std::vector<int> all(7, -1);
      Call gather{.kind = Kind::gather, .input = mine.data(), .count = own};
      gather.type = DataType::int32;
      gather.varying = true;
      gather.counts = given ? std::span<const size_t>(zeros) : std::span(&stray, 1);
      if (c.rank() == 0) gather.output = all.data(), gather.counts = real, gather.offsets = offsets;
      ASSERT_TRUE(c.run(gather).ok());
      if (c.rank() == 0) {
        EXPECT_EQ(all, (std::vector<int>{3, 3, 3, 2, 2, 1, -1}));
      }
      std::vector<int> part(own, -1);
      Call scatter{.kind = Kind::scatter, .output = part.data(), .count = own};
      scatter.type = DataType::int32;
      scatter.varying = true;
      scatter.counts = gather.counts;
      if (c.rank() == 0) scatter.input = all.data(), scatter.offsets = offsets;
      ASSERT_TRUE(c.run(scatter).ok());
      EXPECT_EQ(part, mine);
    }
  });
}

TEST_P(Misuse, AllToAllInPlaceMayWriteItsOffsetsOut) {
  run_ranks(cluster(2), [](Communicator& c) {
    const std::vector<size_t> counts{1, 1}, packed{0, 1};
    std::vector<int> both{10 * c.rank(), 10 * c.rank() + 1};
    Call call{.kind = Kind::all_to_all, .input = both.data(), .output = both.data()};
    call.type = DataType::int32;
    call.varying = true;
    call.counts = call.recv_counts = counts;
    call.recv_offsets = packed;
    const Status status = c.run(call);
    ASSERT_TRUE(status.ok()) << status.to_string();
    EXPECT_EQ(both, (std::vector<int>{c.rank(), 10 + c.rank()}));
  });
}

TEST_P(Misuse, MoreMemoryThanThereCanBeIsRefusedOnAllRanks) {
  run_ranks(cluster(2), [](Communicator& c) {
    for (const size_t bytes : {~size_t{0}, ~size_t{0} - 4000}) {
      const auto memory = c.allocate(bytes);
      ASSERT_FALSE(memory.ok());
      EXPECT_TRUE(contains(memory.status(), "bytes is")) << memory.status().to_string();
    }
    EXPECT_TRUE(c.barrier().ok());
  });
}

// All count it as one allocation, whoever could not make it.
TEST_P(Misuse, MoreMemoryThanThereCanBeOnOneRankIsNoneOnAll) {
  run_ranks(cluster(2), [](Communicator& c) {
    EXPECT_FALSE(c.allocate(c.rank() == 0 ? ~size_t{0} : 4096).ok());
    const auto memory = c.allocate(4096);
    EXPECT_TRUE(memory.ok()) << memory.status().to_string();
    EXPECT_TRUE(c.barrier().ok());
  });
}

TEST(Arguments, ThatOverflowAreRefused) {
  int x = 0;
  std::vector<Transfer> group(3, send_to(1, &x, 1, DataType::int32));
  EXPECT_TRUE(validate(group, 20'000).ok());
  group.resize(6, group[0]);
  EXPECT_TRUE(contains(validate(group, 20'000), "5 transfers to or from one of 20000 ranks"));
  Call call{.kind = Kind::broadcast, .input = &x, .output = &x, .count = 1};
  for (const double wrong : {-1.0, -1e-9, std::numeric_limits<double>::quiet_NaN()}) {
    call.timeout_s = wrong;
    EXPECT_TRUE(contains(validate(call, 2, 0), "timeout_s is")) << wrong;
  }
  call.timeout_s = 0.5;
  EXPECT_TRUE(validate(call, 2, 0).ok());
}

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
    const Status no_op =
        c.all_reduce(&x, &x, 1, DataType::float32, static_cast<ReduceOp>(kReduceOps));
    EXPECT_TRUE(contains(no_op, "op is 9")) << no_op.to_string();
    const Status no_kind = c.run({.kind = static_cast<Kind>(kKinds), .input = &x, .output = &x});
    EXPECT_TRUE(contains(no_kind, "kind is 10")) << no_kind.to_string();
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

// In a ring rank 1 waits for rank 0 alone, and that for rank 3, which says so.
TEST_P(Misuse, ATimeoutNamesWhoSaidNothing) {
  Cluster four = cluster(4);
  four.options.timeout_s = 0.3;
  four.options.algorithm = "ring";
  run_ranks(four, [](Communicator& c) {
    std::vector<float> in(64, 1), out(64);
    if (c.rank() == 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1200));
      return;
    }
    const Status status =
        c.all_reduce(in.data(), out.data(), in.size(), DataType::float32, ReduceOp::sum);
    EXPECT_EQ(status.code(), Code::timeout);
    if (c.rank() == 0) {  // has nothing to do with rank 2
      EXPECT_TRUE(matches(status, "rank 3 waited 0[.]\\d+ s for rank 2")) << status.to_string();
      EXPECT_FALSE(contains(status, "no word")) << status.to_string();
    } else {
      EXPECT_EQ(status.peer(), 2);
      EXPECT_TRUE(contains(status, "no word from rank 2")) << status.to_string();
    }
  });
}

// Not an error before the deadline: another thread of the peer might send.
TEST_P(Misuse, AReceiveThatTimesOutSaysWhereItsPeerIs) {
  Cluster two = cluster(2);
  two.options.timeout_s = 1.5;
  run_ranks(two, [](Communicator& c) {
    int value = 0;
    const Status status = c.rank() == 0 ? c.recv(1, &value, 1, DataType::int32) : c.barrier();
    EXPECT_EQ(status.code(), Code::timeout);
    EXPECT_TRUE(contains(status, "waited 1.5 s for")) << status.to_string();
    if (c.rank() == 0) {
      EXPECT_TRUE(contains(status, "rank 1 says that it is in barrier(), collective call 1"))
          << status.to_string();
    }
  });
}

// Where all ranks know all counts, windows are leased by them: a disagreement must not pass.
TEST_P(Misuse, DifferentCountsByRankAreReported) {
  for (const bool check : {false, true}) {
    Cluster c2 = cluster(2);
    c2.options.check = check;
    run_ranks(c2, [](Communicator& c) {
      std::vector<float> in(300, 1), out(600);
      const size_t counts[] = {100, c.rank() == 0 ? size_t{200} : size_t{300}};
      Status status;
      const double took = seconds_of([&] {
        status = c.run({.kind = Kind::all_gather,
                        .input = in.data(),
                        .output = out.data(),
                        .type = DataType::float32,
                        .varying = true,
                        .counts = counts});
      });
      EXPECT_EQ(status.code(), Code::mismatch) << status.to_string();
      EXPECT_TRUE(contains(status, "300 in all") && contains(status, "400 in all"))
          << status.to_string();
      EXPECT_LT(took, 5);
    });
  }
}

TEST_P(Misuse, CheckModeComparesTheCountsOfPairs) {
  Cluster checked = cluster(3);
  checked.options.check = true;
  run_ranks(checked, [](Communicator& c) {
    std::vector<int32_t> in(100, 1), out(100, -1);
    const size_t counts[] = {10, 20, 30};
    // The root takes rank 1's 20 elements for 21.
    const size_t root_counts[] = {10, 21, 30};
    const auto gather = [&](std::span<const size_t> at_root) {
      return c.run({.kind = Kind::gather,
                    .input = in.data(),
                    .output = out.data(),
                    .count = counts[c.rank()],
                    .type = DataType::int32,
                    .varying = true,
                    .counts = c.rank() == 0 ? at_root : std::span<const size_t>()});
    };
    ASSERT_TRUE(gather(counts).ok());
    const Status status = gather(root_counts);
    EXPECT_EQ(status.code(), Code::mismatch);
    if (c.rank() == 0) {
      EXPECT_TRUE(contains(status, "expects 21") && contains(status, "rank 1") &&
                  contains(status, "send 20"))
          << status.to_string();
    }
  });
}

TEST_P(Misuse, CheckModeSeesACountOfZero) {
  Cluster checked = cluster(2);
  checked.options.check = true;
  run_ranks(checked, [](Communicator& c) {
    float in = 1, out = 0;
    const Status status =
        c.all_reduce(&in, &out, c.rank() == 0 ? 0 : 1, DataType::float32, ReduceOp::sum);
    EXPECT_EQ(status.code(), Code::mismatch) << status.to_string();
  });
}

TEST_P(Misuse, AllToAllInPlaceNeedsEqualCountsBothWays) {
  run_ranks(cluster(2), [](Communicator& c) {
    std::vector<int32_t> both(10);
    const size_t counts[] = {1, 2}, recv_counts[] = {1, 2}, other[] = {2, 2};
    Call call{.kind = Kind::all_to_all,
              .input = both.data(),
              .output = both.data(),
              .type = DataType::int32,
              .varying = true,
              .counts = c.rank() == 0 ? std::span(counts) : std::span(other),
              .recv_counts = c.rank() == 0 ? std::span(recv_counts) : std::span(other)};
    ASSERT_TRUE(c.run(call).ok());
    const size_t offsets[] = {0, 4};
    call.recv_offsets = offsets;
    const Status status = c.run(call);
    EXPECT_EQ(status.code(), Code::invalid_argument);
    EXPECT_TRUE(contains(status, "in place")) << status.to_string();
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

// Who is the root waits for nobody. What is left of such calls must not pass for data of later
// ones.
TEST_P(Misuse, TwoRootsAreNoticedWhenOneWaitsForTheOther) {
  for (const size_t count : {size_t{1}, size_t{100}, size_t{20'000}, size_t{300'000}})
    run_ranks(cluster(2), [&](Communicator& c) {
      std::vector<float> in(count, 1), out(count);
      const auto sum = [&] {
        return c.all_reduce(in.data(), out.data(), count, DataType::float32, ReduceOp::sum);
      };
      ASSERT_TRUE(sum().ok());
      Status status = c.broadcast(in.data(), out.data(), 1, DataType::float32, c.rank());
      if (status.ok()) status = sum();  // else the other one was faster
      EXPECT_EQ(status.code(), Code::mismatch) << status.to_string();
      EXPECT_TRUE(contains(status, "make the same calls in the same order")) << status.to_string();
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
    EXPECT_TRUE(contains(status, "rank 2")) << status.to_string();
    EXPECT_EQ(status.peer(), 2) << status.to_string();
    EXPECT_LT(took, 2.4);
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

// After a failed call the caller's memory is the caller's: what peers sent for it must not arrive
// in it any more. (Under AddressSanitizer this also sees writes to memory that was freed.)
TEST_P(Misuse, FailedCallsLeaveMemoryAlone) {
  Cluster c3 = cluster(3);
  c3.options.timeout_s = 1;
  std::latch others_gave_up(2), late_one_ended(1);
  run_ranks(c3, [&](Communicator& c) {
    constexpr size_t kCount = 1 << 20;
    const bool late = c.rank() == 2;
    EXPECT_TRUE(c.barrier().ok());
    if (late) others_gave_up.wait();
    auto in = std::make_unique<std::vector<int32_t>>(kCount, 1);
    auto out = std::make_unique<std::vector<int32_t>>(kCount, 0);
    const Status status =
        c.all_reduce(in->data(), out->data(), kCount, DataType::int32, ReduceOp::sum);
    EXPECT_FALSE(status.ok());
    out->assign(kCount, -1);
    in.reset();
    (late ? late_one_ended : others_gave_up).count_down();
    late_one_ended.wait();
    EXPECT_FALSE(c.barrier().ok());
    EXPECT_EQ(static_cast<size_t>(std::count(out->begin(), out->end(), -1)), kCount);
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
