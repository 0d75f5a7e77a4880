// What algorithms claim, counted in their schedules by the verifier.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/algorithms/algorithm.h"
#include "engine/schedule/verify.h"

namespace weft {
namespace {

constexpr int kRanksMax = 17;

template <class Visit>
void for_each_case(Visit&& visit) {
  for (const Algorithm& algorithm : catalog())
    for (int kind = 0; kind < kKinds; ++kind)
      for (int ranks = 1; ranks <= kRanksMax; ++ranks)
        for (const int radix : {2, 3, 4}) {
          if (radix > 2 && !algorithm.radix) continue;
          const Collective c{static_cast<Kind>(kind), ranks, has_root(Kind(kind)) ? ranks / 2 : 0,
                             false};
          if (algorithm.suits(c)) visit(algorithm, c, Parameters{radix});
        }
}

TEST(Algorithms, CostWhatTheirHeadersSay) {
  for_each_case([](const Algorithm& a, const Collective& c, const Parameters& p) {
    const Proof proof = verify(schedule_of(a, c, p), {.slots = 8, .rounds = 1});
    ASSERT_TRUE(proof.status.ok())
        << a.name << " " << name(c.kind) << " on " << c.ranks << ": " << proof.status.to_string();
    const Cost claimed = a.cost(c, p);
    EXPECT_EQ(proof.counted.hops, claimed.hops) << a.name << " " << name(c.kind) << " " << c.ranks;
    EXPECT_EQ(proof.counted.chunks_sent, claimed.chunks_sent)
        << a.name << " " << name(c.kind) << " on " << c.ranks << " radix " << p.radix;
  });
}

bool reads(const Step& step, const Operand& slot) {
  return std::ranges::find(step.sources, slot) != step.sources.end();
}
bool writes(const Step& step, const Operand& slot) {
  return std::ranges::find(step.targets, slot) != step.targets.end();
}

// Going back from the step in the lane, and round to its end: the rank's last use of the slot
// before it is written, with the step's own reads.
bool has_read_last(const Lane& lane, size_t step, const Operand& slot) {
  const size_t all = lane.steps.size();
  for (size_t back = 0; back <= all; ++back) {
    const Step& before = lane.steps[(step + all - back) % all];
    if (back > 0 && writes(before, slot)) return false;
    if (reads(before, slot)) return true;
  }
  return false;
}

TEST(Algorithms, HandBackWhereTheySay) {
  int written = 0;
  for_each_case([&](const Algorithm& a, const Collective& c, const Parameters& p) {
    if (!a.hands_back) return;
    for (const Program& program : schedule_of(a, c, p).programs)
      for (const Lane& lane : program.lanes)
        for (size_t i = 0; i < lane.steps.size(); ++i)
          for (const Operand& target : lane.steps[i].targets) {
            if (target.buffer != Buffer::window) continue;
            ++written;
            EXPECT_TRUE(has_read_last(lane, i, target)) << a.name << " " << name(c.kind);
          }
  });
  EXPECT_GT(written, 1000);
}

TEST(Algorithms, FoldInRankOrderWhereTheySay) {
  for_each_case([](const Algorithm& a, const Collective& c, const Parameters& p) {
    if (!reduces(c.kind)) return;
    const Proof proof = verify(schedule_of(a, c, p), {.slots = 8, .rounds = 1});
    if (a.canonical) {
      EXPECT_TRUE(proof.canonical) << a.name << " " << name(c.kind) << " on " << c.ranks;
    }
    EXPECT_TRUE(proof.same_bits) << a.name << " " << name(c.kind) << " on " << c.ranks;
  });
}

TEST(Algorithms, EveryCollectiveHasALowLatencyAndAHighBandwidthOne) {
  for (int kind = 0; kind < kKinds; ++kind) {
    if (Kind(kind) == Kind::barrier) continue;
    const Collective c{static_cast<Kind>(kind), 8, 0, false};
    double fewest_hops = 1e9, least_sent = 1e9;
    for (const Algorithm& a : catalog()) {
      if (!a.suits(c) || a.windows) continue;
      const Cost cost = a.cost(c, {});
      const int pieces = a.build(c, 0, {}).pieces;
      fewest_hops = std::min<double>(fewest_hops, cost.hops);
      least_sent = std::min(least_sent, static_cast<double>(cost.chunks_sent) / pieces);
    }
    EXPECT_LE(fewest_hops, 3) << name(c.kind);
    // Bounds in blocks: all_reduce 2(n-1)/n of the message; kinds of n blocks n-1; chains one
    // message.
    const double bound =
        c.kind == Kind::all_reduce ? 2.0 * 7 / 8
        : c.kind == Kind::broadcast || c.kind == Kind::reduce || c.kind == Kind::gather ? 1
                                                                                        : 7;
    EXPECT_LE(least_sent, bound + 1e-9) << name(c.kind);
  }
}

// More than 15 MiB of buffers of all ranks on the host, where nothing was measured.
TEST(ResultsStream, WhereTheLastCacheDoesNotHoldThem) {
  constexpr double kMiB = 1 << 20;
  EXPECT_TRUE(results_stream(Kind::all_reduce, 2, 2, 4 * kMiB));
  EXPECT_FALSE(results_stream(Kind::all_reduce, 2, 2, 3.5 * kMiB));
  EXPECT_TRUE(results_stream(Kind::all_reduce, 8, 8, 1 * kMiB));
  EXPECT_FALSE(results_stream(Kind::all_reduce, 8, 1, 7 * kMiB));
  EXPECT_TRUE(results_stream(Kind::broadcast, 2, 2, 5.5 * kMiB));
  EXPECT_FALSE(results_stream(Kind::broadcast, 2, 2, 5 * kMiB));
  EXPECT_TRUE(results_stream(Kind::all_to_all, 2, 2, 2 * kMiB));
  EXPECT_FALSE(results_stream(Kind::all_to_all, 2, 2, 1.5 * kMiB));
  EXPECT_TRUE(results_stream(Kind::all_gather, 4, 4, 1 * kMiB));
  EXPECT_FALSE(results_stream(Kind::all_gather, 2, 2, 2 * kMiB));
  EXPECT_FALSE(results_stream(Kind::barrier, 1 << 16, 1 << 16, 1));
  EXPECT_FALSE(results_stream(Kind::all_reduce, 2, 2, 4 * kMiB, 16 * kMiB));
  EXPECT_TRUE(results_stream(Kind::all_reduce, 2, 2, 4.1 * kMiB, 16 * kMiB));
}

// Counted block by block.
TEST(BufferBlocks, AreThoseOfAllRanksOverTheirNumber) {
  for (int kind = 0; kind < kKinds; ++kind)
    for (const int ranks : {1, 2, 3, 8}) {
      const Collective c{static_cast<Kind>(kind), ranks, ranks - 1, false};
      if (c.kind == Kind::exchange || c.kind == Kind::barrier) continue;
      int held = 0;
      for (Rank rank = 0; rank < ranks; ++rank)
        for (int block = 0; block < blocks(c); ++block)
          held += in_input(c, rank, block) + in_output(c, rank, block);
      EXPECT_DOUBLE_EQ(buffer_blocks(c.kind, ranks), double(held) / ranks) << name(c.kind);
    }
}

}  // namespace
}  // namespace weft
