// Whom a blocked executor waits for, and whether one of them needs its CPU: what a thread that
// shares its core goes by.
#include <gtest/gtest.h>

#include <vector>

#include "engine/algorithms/algorithm.h"
#include "engine/arrange.h"
#include "engine/executor/cpu_executor.h"
#include "engine/executor/shared_state.h"
#include "tests/support/sim_media.h"

namespace weft::test {
namespace {

constexpr int kRanks = 4, kCpus = 2;  // which ranks have in turn
constexpr size_t kCount = 4, kWindowBytes = 1 << 20;

// All ranks in one call, driven by hand.
class Awaited : public testing::Test {
 protected:
  struct Member {
    Member(Media& media) : shared(media), executor(media, shared) {}
    SharedState shared;
    CpuExecutor executor;
    std::unique_ptr<Plan> plan;
    std::vector<float> in = std::vector<float>(kCount, 1),
                       out = std::vector<float>(kRanks * kCount);
  };

  void start(const char* algorithm, bool ll, size_t window_bytes, Kind kind = Kind::all_reduce) {
    members_.clear();
    media_ =
        std::make_unique<SimMedia>(kRanks, window_bytes, SimOptions{.traits = {}, .cpus = kCpus});
    for (Rank rank = 0; rank < kRanks; ++rank) {
      Media& media = media_->of(rank);
      Member& member = *members_.emplace_back(std::make_unique<Member>(media));
      const Call call{.kind = kind, .count = kCount, .type = DataType::float32};
      const Choice choice{.algorithm = find_algorithm(algorithm), .ll = ll, .segment_bytes = 1024};
      auto arranged = arrange(call, false, choice, kRanks, rank).take();
      arranged.request.links = Media::kUsualLinks;
      member.plan =
          lower(arranged.request, std::move(arranged.program), std::move(arranged.layout), media)
              .take();
      member.executor.binding() = {.input = reinterpret_cast<const std::byte*>(member.in.data()),
                                   .output = reinterpret_cast<std::byte*>(member.out.data())};
      CallIdentity& identity = member.executor.identity();
      identity = {.tag = 7, .ll_serial = 1, .finished_before = finished_before_};
      if (window_bytes > 0) {
        const WindowLayout& layout = media.window_layout();
        identity.window_call = 1;
        identity.window_offset = ll ? layout.ll_offset() : layout.data_offset();
      }
      member.executor.start(*member.plan);
    }
    for (int i = 0; i < 10; ++i) media_->step();
  }

  // Until the rank does not get on by itself.
  CpuExecutor& drive(Rank rank) {
    CpuExecutor& executor = members_[static_cast<size_t>(rank)]->executor;
    for (int i = 0; i < 20; ++i) {
      while (executor.poll() == CpuExecutor::Progress::moved) {
      }
      media_->step();
    }
    return executor;
  }

  // Of a rank that waits for one of another CPU at first: until the one beside it has run.
  void expect_needs_the_cpu(Rank rank, Rank elsewhere, Rank beside) {
    EXPECT_EQ(drive(rank).awaited(), elsewhere);
    EXPECT_TRUE(drive(rank).needs_this_cpu());
    drive(beside);
    EXPECT_EQ(drive(rank).awaited(), elsewhere);
    EXPECT_FALSE(drive(rank).needs_this_cpu());
  }

  uint64_t finished_before_ = 0;

 private:
  std::unique_ptr<SimMedia> media_;
  std::vector<std::unique_ptr<Member>> members_;
};

TEST_F(Awaited, IsWhoseMessageHasNotCome) {
  start("ring", false, 0);
  EXPECT_EQ(drive(1).awaited(), 0);
  EXPECT_EQ(drive(2).awaited(), 1);  // which has sent its first and needs rank 0's for the second
  EXPECT_EQ(drive(0).awaited(), 3);
}

TEST_F(Awaited, IsWhoseSignalHasNotCome) {
  start("window_one_shot", false, kWindowBytes);
  EXPECT_NE(drive(2).awaited(), 2);
  EXPECT_EQ(drive(2).awaited(), drive(2).blocked_peers().front());
  drive(0);
  drive(1);
  EXPECT_EQ(drive(2).awaited(), 3);
}

TEST_F(Awaited, IsWhoseLineHasNotCome) {
  start("window_one_shot", true, kWindowBytes);
  drive(0);
  drive(3);
  EXPECT_EQ(drive(2).awaited(), 1);
}

TEST_F(Awaited, NeedsTheCpuUntilItHasWritten) {
  for (const bool ll : {false, true}) {
    start("window_one_shot", ll, kWindowBytes);
    drive(3);
    EXPECT_TRUE(drive(2).needs_this_cpu()) << "rank 0 has to run";
    drive(0);
    EXPECT_FALSE(drive(2).needs_this_cpu()) << "rank 1 is elsewhere";
  }
}

// In a later step of the round: the one at hand is a peer's of another CPU.
TEST_F(Awaited, NeedsTheCpuForWhatComesLater) {
  start("window_one_shot", false, kWindowBytes, Kind::all_gather);
  expect_needs_the_cpu(2, 3, 0);
}

TEST_F(Awaited, NeedsTheCpuForAMessageThatComesLater) {
  start("direct_one_shot", false, 0, Kind::all_gather);
  expect_needs_the_cpu(3, 0, 1);
}

TEST_F(Awaited, NeedsTheCpuForTheEndOfACallThatHadTheWindow) {
  finished_before_ = 1;
  start("window_one_shot", false, kWindowBytes);
  EXPECT_EQ(drive(2).awaited(), 0);
  EXPECT_TRUE(drive(2).needs_this_cpu());
  EXPECT_FALSE(drive(1).needs_this_cpu());
}

}  // namespace
}  // namespace weft::test
