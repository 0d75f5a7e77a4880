// What a peer did before it gave up or died came before the word of it, though nobody looked in
// between: calls that lack nothing else end well.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/support/sim_call.h"

namespace weft::test {
namespace {

enum class End : uint8_t { aborts, dies };

// How rank 0 ends; whether its messages go by windows or links; whether rank 1 waits in its call,
// or has started it.
class LastPolls : public testing::TestWithParam<std::tuple<End, bool, bool>> {
 protected:
  // Rank 1 finds nothing from rank 0, and before it looks around rank 0 makes the call, if it
  // `takes_part`, and ends.
  void run(bool takes_part) {
    const bool windows = std::get<1>(GetParam()), waits = std::get<2>(GetParam());
    Options options;
    options.timeout_s = 10;  // virtual
    takes_part_ = takes_part;
    SimOptions sim{.seed = 3, .windows = windows};
    sim.between = [&](Rank rank) {
      if (!rank1_called_ || rank != 1 || std::exchange(ended_, true)) return;
      if (takes_part_) {
        const Work work = world_->engine(0).start(call(0));
        ASSERT_TRUE(world_->finish(std::span(&work, 1), 1));
        EXPECT_TRUE(work.error().ok()) << work.error().to_string();
      }
      for (int i = 0; i < 20; ++i) world_->poll(1);  // until rank 1 has all that was sent
      how() == End::aborts ? world_->engine(0).abort("enough") : world_->net().kill(0);
      for (int i = 0; i < 200; ++i) world_->poll(1);  // until rank 1 may know
    };
    world_ = std::make_unique<SimWorld>(2, sim, options);
    // Now connections are there, and windows are mapped.
    const Work before[] = {world_->engine(0).start(call(0)), world_->engine(1).start(call(1))};
    ASSERT_TRUE(world_->finish(before));
    for (std::array<int32_t, 2>& each : all_) each = {};
    rank1_called_ = true;
    if (waits) {
      status_ = world_->engine(1).run(call(1));
    } else {
      const Work work = world_->engine(1).start(call(1));
      while (world_->engine(1).poll()) continue;
      status_ = work.error();
    }
    EXPECT_TRUE(ended_);
    next_ = world_->engine(1).run(call(1));
  }

  Call call(Rank rank) {
    return {.kind = Kind::all_gather,
            .input = &own_[rank],
            .output = all_[rank].data(),
            .count = 1,
            .type = DataType::int32};
  }

  static End how() { return std::get<End>(GetParam()); }
  static Code code() { return how() == End::aborts ? Code::aborted : Code::peer_lost; }

  const std::array<int32_t, 2> own_{10, 11};
  std::array<std::array<int32_t, 2>, 2> all_{};
  std::unique_ptr<SimWorld> world_;
  bool rank1_called_ = false, takes_part_ = false, ended_ = false;
  Status status_, next_;
};

std::string way(const testing::TestParamInfo<LastPolls::ParamType>& test) {
  const auto [how, windows, waits] = test.param;
  return std::string(how == End::aborts ? "Aborts" : "Dies") + (windows ? "Windows" : "Links") +
         (waits ? "Waiting" : "Started");
}

INSTANTIATE_TEST_SUITE_P(Ways, LastPolls,
                         testing::Combine(testing::Values(End::aborts, End::dies), testing::Bool(),
                                          testing::Bool()),
                         way);

TEST_P(LastPolls, EndACallThatLacksNothing) {
  run(true);
  EXPECT_TRUE(status_.ok()) << status_.to_string();
  EXPECT_EQ(all_[1], own_);
  EXPECT_EQ(next_.code(), code()) << next_.to_string();
}

TEST_P(LastPolls, LetACallFailThatLacksSomething) {
  run(false);
  EXPECT_EQ(status_.code(), code()) << status_.to_string();
  EXPECT_EQ(next_.code(), code()) << next_.to_string();
}

// The word of one peer is heard in one call; what others sent ends the other calls all the same.
TEST(LastPollsOfMany, EndAllThatLackNothing) {
  Options options;
  options.timeout_s = 10;  // virtual
  const int32_t sent[] = {10, 0, 12};
  int32_t received[] = {0, 0, 0};
  std::unique_ptr<SimWorld> world;
  bool called = false, ended = false;
  SimOptions sim{.seed = 4};
  sim.between = [&](Rank rank) {
    if (!called || rank != 1 || std::exchange(ended, true)) return;
    std::vector<Work> sends;
    for (const Rank from : {0, 2}) {
      const Transfer send = send_to(1, &sent[from], 1, DataType::int32);
      sends.push_back(world->engine(from).start(std::span(&send, 1)));
    }
    ASSERT_TRUE(world->finish(sends, 1));
    for (int i = 0; i < 20; ++i) world->poll(1);  // until rank 1 has both
    world->engine(0).abort("enough");
    for (int i = 0; i < 200; ++i) world->poll(1);  // until rank 1 may know
  };
  world = std::make_unique<SimWorld>(3, sim, options);
  std::vector<Work> works;
  for (const Rank from : {0, 2}) {
    const Transfer receive = receive_from(from, &received[from], 1, DataType::int32);
    works.push_back(world->engine(1).start(std::span(&receive, 1)));
  }
  called = true;
  while (world->engine(1).poll()) continue;
  EXPECT_TRUE(ended);
  for (const Work& work : works) EXPECT_TRUE(work.error().ok()) << work.error().to_string();
  EXPECT_EQ(received[0], 10);
  EXPECT_EQ(received[2], 12);
  EXPECT_EQ(world->engine(1).health().code(), Code::aborted);
}

}  // namespace
}  // namespace weft::test
