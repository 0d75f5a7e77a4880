// What a waiting thread does with its core.
#include "engine/backoff.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace weft {
namespace {

constexpr Rank kPeer = 1;

// Leads to kPeer, and writes down what rank 0 does with its core.
class Listener final : public Transport {
 public:
  Listener(bool& peer_runs, std::string& heard) : peer_runs_(peer_runs), heard_(heard) {}

  void set_running(bool running) override { heard_ += running ? "r" : "-"; }
  bool running(Rank peer) const override { return peer == kPeer && peer_runs_; }
  void wait(const Deadline&) override { heard_ += "w"; }
  bool reaches(Rank peer) const override { return peer == kPeer; }

  std::string_view name() const override { return "listener"; }
  std::string address() const override { return {}; }
  Status join(std::vector<std::string>) override { return {}; }
  SendLink& open_send(Rank, LinkId, LinkShape) override { std::abort(); }
  RecvLink& open_recv(Rank, LinkId, LinkShape) override { std::abort(); }
  const Window* open_window(Rank) override { return nullptr; }
  void poll() override {}
  void wake(Rank) override {}
  void wake_self() override {}
  void abandon() override {}
  void tell(Rank, NoteKind, std::string_view) override {}
  std::optional<Note> hear() override { return std::nullopt; }
  Status peer_status(Rank) const override { return {}; }

 private:
  bool& peer_runs_;
  std::string& heard_;
};

class BackoffTest : public testing::Test {
 protected:
  // What is heard in so many pauses, "." for those spent on spinning.
  std::string pauses(Backoff& backoff, int count, Waiting waiting = {.whom = kPeer}) {
    std::string text;
    for (int i = 0; i < count; ++i) {
      heard_.clear();
      backoff.pause(media_, Deadline::after(1), waiting);
      text += heard_.empty() ? "." : heard_;
    }
    return text;
  }

  bool peer_runs_ = false;

 private:
  static std::vector<std::unique_ptr<Transport>> one(std::unique_ptr<Transport> transport) {
    std::vector<std::unique_ptr<Transport>> list;
    list.push_back(std::move(transport));
    return list;
  }
  std::string heard_;
  Media media_{0, 2, one(std::make_unique<Listener>(peer_runs_, heard_)), 0};
};

std::string repeated(int times, std::string_view text) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

TEST_F(BackoffTest, WhoHasACoreOfHisOwnSpinsForLongAndTellsNobody) {
  Backoff backoff(false);
  peer_runs_ = true;
  // A yield after each thousand is nobody's business here.
  EXPECT_EQ(pauses(backoff, 20 * 1001 - 1), repeated(20 * 1001 - 1, "."));
  EXPECT_FALSE(backoff.look_around());
  EXPECT_EQ(pauses(backoff, 3), ".ww");
  EXPECT_TRUE(backoff.look_around());
}

TEST_F(BackoffTest, WhoSharesACoreYieldsSoonAndSleepsSoon) {
  Backoff backoff(true);
  for (const Waiting waiting : {Waiting{.whom = kPeer}, Waiting{}}) {
    backoff.reset();
    EXPECT_EQ(pauses(backoff, 2 + 16 + 2, waiting), ".." + repeated(16, "-r") + "-wr-wr");
    EXPECT_TRUE(backoff.look_around());
  }
}

TEST_F(BackoffTest, WhoSharesACoreSpinsForAPeerThatRuns) {
  Backoff backoff(true);
  peer_runs_ = true;
  const std::string turn = repeated(24, ".") + "-r";
  EXPECT_EQ(pauses(backoff, 16 * 25), repeated(16, turn));
  EXPECT_EQ(pauses(backoff, 3),
            "-wr-wr-wr");  // it only computes: each look would cost a system call
  backoff.reset();
  EXPECT_EQ(pauses(backoff, 25, {}), ".." + repeated(16, "-r") + repeated(7, "-wr"));
}

TEST_F(BackoffTest, WhoIsNeededHereRunsAtOnce) {
  Backoff backoff(true);
  peer_runs_ = true;
  const Waiting waiting{.whom = kPeer, .needs_cpu = true};
  EXPECT_EQ(pauses(backoff, 2 + 16, waiting), repeated(16, "-r") + "-wr-wr");
  backoff.reset();
  EXPECT_EQ(pauses(backoff, 2, waiting), "-r-r");
  EXPECT_EQ(pauses(backoff, 25), repeated(24, ".") + "-r") << "as if nothing had been";
}

TEST_F(BackoffTest, WhoListensToSeveralMediaGivesWayForLonger) {
  Backoff backoff(true, true);
  int looks = 0;
  for (int i = 0; i < 2 + 256; ++i) looks += backoff.look_around(), (void)pauses(backoff, 1);
  EXPECT_EQ(looks, 16);
  backoff.reset();
  EXPECT_EQ(pauses(backoff, 2 + 256 + 1), ".." + repeated(256, "-r") + "-wr");
  Backoff alone(false, true);
  EXPECT_EQ(pauses(alone, 1000), repeated(1000, "."));
}

TEST_F(BackoffTest, LooksAtThePeerEveryTime) {
  Backoff backoff(true);
  EXPECT_EQ(pauses(backoff, 4), "..-r-r");
  peer_runs_ = true;
  EXPECT_EQ(pauses(backoff, 5), ".....");
  peer_runs_ = false;
  EXPECT_EQ(pauses(backoff, 2), "-r-r");
}

}  // namespace
}  // namespace weft
