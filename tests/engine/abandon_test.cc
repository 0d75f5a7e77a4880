// What an engine lets go of when its communicator fails, or is destroyed, it does not touch again.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "engine/engine.h"

namespace weft::test {
namespace {

// What the threads of a test see of a medium that leads to rank 1, who never says anything.
struct Seen {
  std::atomic<bool> send_waits = false, receive_waits = false, abandoned = false;
  std::atomic<int> sent = 0;
  std::atomic<bool> breaks = false, telling = false, woken = false;
  std::atomic<bool> holds = false;  // the first send, until somebody wakes this rank
  std::mutex mutex;
  std::set<std::thread::id> polling;  // threads that have
};

// Gives credit for the first time when all has been abandoned.
class LateCredit final : public SendLink {
 public:
  LateCredit(LinkShape shape, Seen& seen) : SendLink(shape), seen_(seen) {}

  Bytes reserve() override { return {}; }
  void commit(size_t, uint64_t) override {}
  std::optional<Ticket> send(ConstBytes, uint64_t) override {
    seen_.send_waits = true;
    const Deadline patience = Deadline::after(20);
    while (seen_.holds && !seen_.woken && !patience.expired()) std::this_thread::yield();
    if (!seen_.abandoned) return std::nullopt;
    return static_cast<Ticket>(++seen_.sent);
  }
  bool done(Ticket) override { return false; }
  LinkTraits traits() const override { return {.send_from_memory = true}; }
  const Status& status() const override { return ok_; }

 private:
  Seen& seen_;
  const Status ok_;
};

class Silence final : public RecvLink {
 public:
  Silence(LinkShape shape, Seen& seen) : RecvLink(shape), seen_(seen) {}

  const Message* peek() override {
    seen_.receive_waits = true;
    return nullptr;
  }
  void release() override {}
  std::optional<Ticket> post(Bytes) override { return std::nullopt; }
  std::optional<Placed> done(Ticket) override { return std::nullopt; }
  LinkTraits traits() const override { return {}; }
  const Status& status() const override { return seen_.breaks ? lost_ : ok_; }

 private:
  Seen& seen_;
  const Status ok_, lost_ = Status(Code::peer_lost, "rank 1 died", 1);
};

class Medium final : public Transport {
 public:
  explicit Medium(Seen& seen) : seen_(seen) {}

  SendLink& open_send(Rank, LinkId, LinkShape shape) override {
    return *(send_ = std::make_unique<LateCredit>(shape, seen_));
  }
  RecvLink& open_recv(Rank, LinkId, LinkShape shape) override {
    return *(recv_ = std::make_unique<Silence>(shape, seen_));
  }
  void abandon() override { seen_.abandoned = true; }

  std::string_view name() const override { return "silence"; }
  std::string address() const override { return {}; }
  Status join(std::vector<std::string>) override { return {}; }
  bool reaches(Rank peer) const override { return peer == 1; }
  const Window* open_window(Rank) override { return nullptr; }
  void poll() override {
    const std::lock_guard lock(seen_.mutex);
    seen_.polling.insert(std::this_thread::get_id());
  }
  void wait(const Deadline&) override { std::this_thread::yield(); }
  void wake(Rank) override {}
  void wake_self() override { seen_.woken = true; }
  void tell(Rank, NoteKind kind, std::string_view) override {
    if (kind != NoteKind::failure) return;
    seen_.telling = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  std::optional<Note> hear() override { return std::nullopt; }
  Status peer_status(Rank) const override { return {}; }

 private:
  Seen& seen_;
  std::unique_ptr<LateCredit> send_;
  std::unique_ptr<Silence> recv_;
};

void wait_for(const std::atomic<bool>& what) {
  const Deadline patience = Deadline::after(20);
  while (!what && !patience.expired()) std::this_thread::yield();
  ASSERT_TRUE(what);
}

std::unique_ptr<Engine> engine_on(Seen& seen) {
  std::vector<std::unique_ptr<Transport>> transports;
  transports.push_back(std::make_unique<Medium>(seen));
  CreateConfig config;
  config.options.timeout_s = 20;
  return std::make_unique<Engine>(std::make_unique<Media>(0, 2, std::move(transports), 0), config,
                                  std::vector<int>{0, 1}, false);
}

// The thread that drives a call finds that one beside it has failed, and lets go of the memory of
// both: its own call must not go on.
TEST(Abandon, ACallThatDrivesAnotherSendsNothingAfterIt) {
  for (int round = 0; round < 20; ++round) {
    Seen seen;
    const std::unique_ptr<Engine> engine = engine_on(seen);
    int out = 1, in = 0;
    Status status;
    std::jthread caller([&] {
      const Transfer send = send_to(1, &out, 1, DataType::int32);
      status = engine->run(std::span(&send, 1));
    });
    wait_for(seen.send_waits);
    const Transfer receive = receive_from(1, &in, 1, DataType::int32);
    const Work work = engine->start(std::span(&receive, 1));
    wait_for(seen.receive_waits);
    engine->abort("the test says so");
    caller.join();
    EXPECT_EQ(status.code(), Code::aborted) << status.to_string();
    EXPECT_EQ(work.wait().code(), Code::aborted);
    EXPECT_TRUE(seen.abandoned);
    EXPECT_EQ(seen.sent, 0) << "in round " << round;
  }
}

// The same where the other one has not begun, and ends with the first look at the queue.
TEST(Abandon, ACallThatEndsWaitingOnesSendsNothingAfterIt) {
  Seen seen;
  seen.holds = true;
  const std::unique_ptr<Engine> engine = engine_on(seen);
  int out = 1;
  const Transfer send = send_to(1, &out, 1, DataType::int32);
  Status status;
  std::jthread caller([&] { status = engine->run(std::span(&send, 1)); });
  wait_for(seen.send_waits);
  const Work work = engine->start(std::span(&send, 1));
  engine->abort("the test says so");
  caller.join();
  EXPECT_EQ(status.code(), Code::aborted) << status.to_string();
  EXPECT_EQ(work.wait().code(), Code::aborted);
  EXPECT_TRUE(seen.abandoned);
  EXPECT_EQ(seen.sent, 0);
}

// It tells others of a failure, and makes sure that somebody answers them, while the engine ends.
TEST(Abandon, TheProgressThreadOfAnEngineThatEndsIsItsLast) {
  Seen seen;
  std::unique_ptr<Engine> engine = engine_on(seen);
  int in = 0;
  const Transfer receive = receive_from(1, &in, 1, DataType::int32);
  const Work work = engine->start(std::span(&receive, 1));
  wait_for(seen.receive_waits);
  seen.breaks = true;
  wait_for(seen.telling);
  engine.reset();
  EXPECT_EQ(work.wait().code(), Code::peer_lost);
  seen.polling.erase(std::this_thread::get_id());
  EXPECT_EQ(seen.polling.size(), 1u);
}

}  // namespace
}  // namespace weft::test
