// Who is not of the job cannot disturb it: whatever bytes come to the store, it refuses them with a
// log line and the job goes on. And whoever is of the job, but slow, is waited for.
#include <gtest/gtest.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <random>
#include <thread>

#include "base/socket.h"
#include "base/text.h"
#include "bootstrap/frame.h"
#include "tests/bootstrap/ranks.h"
#include "tests/support/connected.h"
#include "tests/support/contains.h"

namespace weft {
namespace {

using test::describe;

constexpr const char* kJob = "the job";

using test::contains;

// A plain socket to the store.
class Raw {
 public:
  explicit Raw(int port) : Raw(*SocketAddress::parse(concat("127.0.0.1:", port))) {}
  explicit Raw(const SocketAddress& store) : socket_(test::connected(store)) {}
  void send(std::string_view text) { (void)send_all(socket_, bytes_of(text), Deadline::after(5)); }
  // This offer, as the store's challenge wants it.
  std::string proven(wire::Offer offer, const Key& key = {}) {
    std::string bytes = wire::encode(Nonce());
    size_t used = 0;
    const Bytes room = std::as_writable_bytes(std::span(bytes));
    EXPECT_TRUE(recv_all(socket_, room, Deadline::after(5)).ok());
    const auto frame = wire::parse_frame(bytes, bytes.size(), &used);
    EXPECT_TRUE(frame.ok() && frame->has_value());
    const auto challenge = wire::parse_challenge((**frame).payload);
    EXPECT_TRUE(challenge);
    offer.proof =
        wire::prove(offer, wire::meeting_key(key, offer.job), challenge.value_or(Nonce()));
    return wire::encode(offer);
  }
  void read(size_t bytes) {
    std::vector<std::byte> room(bytes);
    EXPECT_TRUE(recv_all(socket_, room, Deadline::after(20)).ok());
  }
  void close() { socket_.reset(); }
  // All that comes until the other end closes.
  std::string read_all() {
    std::string text;
    std::byte byte;
    while (recv_all(socket_, std::span(&byte, 1), Deadline::after(5)).ok())
      text.push_back(static_cast<char>(byte));
    return text;
  }
  std::string refusal() {
    size_t used = 0;
    std::string text = read_all();
    auto frame = wire::parse_frame(text, wire::kRefusalBytes, &used);
    if (frame.ok() && frame->has_value() && (**frame).type == wire::Type::challenge)
      frame = wire::parse_frame(text.erase(0, used), wire::kRefusalBytes, &used);
    if (!frame.ok() || !frame->has_value()) return "no frame";
    const bool verdict = (**frame).type == wire::Type::verdict;
    const auto refusal = wire::parse_refusal(
        std::string_view((**frame).payload).substr(verdict ? sizeof(KeyProof) : 0));
    return refusal ? std::string(refusal->status.message()) : "no refusal";
  }

 private:
  Fd socket_;
};

wire::Offer offer_of(uint32_t rank, uint32_t size) {
  wire::Offer offer;
  offer.rank = rank;
  offer.size = size;
  offer.patience_ms = 20000;
  offer.process = rank + 100;
  offer.job = kJob;
  offer.blob = concat(rank);
  return offer;
}

constexpr const char* kSecret = "tulips in the rain";

struct Outcome {
  std::string rank0, rank1, log;
};

Environment with_secret(const std::string& secret) {
  Environment env;
  env.set("WEFT_SECRET", secret);
  return env;
}

// A job of two ranks, of which the second comes only after `disturb`, which gets the store's port.
Outcome job_with(const std::function<void(int)>& disturb, const Environment& env = {}) {
  const int port = test::free_port();
  const std::string where = concat("tcp://127.0.0.1:", port);
  testing::internal::CaptureStderr();
  auto store = make_rendezvous({0, 2, where, kJob}, env);
  Outcome outcome;
  std::thread rank0(
      [&] { outcome.rank0 = describe((*store)->all_gather("0", Deadline::after(20))); });
  disturb(port);
  auto client = make_rendezvous({1, 2, where, kJob}, env);
  outcome.rank1 = describe((*client)->all_gather("1", Deadline::after(20)));
  rank0.join();
  outcome.log = testing::internal::GetCapturedStderr();
  return outcome;
}

void expect_undisturbed(const Outcome& outcome) {
  EXPECT_EQ(outcome.rank0, "ok: 0,1");
  EXPECT_EQ(outcome.rank1, "ok: 0,1");
}

TEST(Strangers, AnHttpRequestIsRefused) {
  const Outcome outcome = job_with([](int port) {
    Raw raw(port);
    raw.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_TRUE(contains(raw.refusal(), "does not speak weft's protocol"));
  });
  expect_undisturbed(outcome);
  EXPECT_TRUE(contains(outcome.log, "weft[0] warning: refused 127.0.0.1:")) << outcome.log;
  EXPECT_TRUE(contains(outcome.log, "\"GET / HTTP/1.1..Host: localhost.")) << outcome.log;
}

TEST(Strangers, RandomGarbageIsRefused) {
  std::mt19937 random(1);
  const Outcome outcome = job_with([&](int port) {
    for (int i = 0; i < 100; ++i) {
      std::string bytes(1 + random() % 3000, '\0');
      for (char& c : bytes) c = static_cast<char>(random());
      if (i % 2) bytes = concat("weft", bytes);  // gets past the first check
      Raw(port).send(bytes);
    }
  });
  expect_undisturbed(outcome);
  EXPECT_GT(std::count(outcome.log.begin(), outcome.log.end(), '\n'), 16);
}

TEST(Strangers, AnnouncingFourGigabytesCostsNoMemory) {
  const Outcome outcome = job_with([](int port) {
    Raw raw(port);
    raw.send(std::string_view("weft\1\0\1\0\xff\xff\xff\xff", 12));
    EXPECT_TRUE(contains(raw.refusal(), "4294967295 bytes"));
  });
  expect_undisturbed(outcome);
}

TEST(Strangers, SilentConnectionsAndPortScannersAreIgnored) {
  std::vector<Raw> silent;
  expect_undisturbed(job_with([&](int port) {
    for (int i = 0; i < 300; ++i) silent.emplace_back(port);  // more than may wait at a time
    for (int i = 0; i < 100; ++i) Raw(port).close();
    Raw half(port);
    half.send("we");
    half.close();
  }));
}

TEST(Strangers, AnotherVersionIsRefusedAndTold) {
  const Outcome outcome = job_with([](int port) {
    std::string bytes = wire::encode(offer_of(1, 2));
    bytes[4] = 9;
    Raw raw(port);
    raw.send(bytes);
    EXPECT_TRUE(
        contains(raw.refusal(),
                 concat("speaks version 9 of weft's protocol, rank 0 version ", wire::kVersion)));
  });
  expect_undisturbed(outcome);
  EXPECT_TRUE(contains(outcome.log, "Rank 1 at 127.0.0.1:")) << outcome.log;
}

TEST(Strangers, ARankOutOfRangeIsRefused) {
  const Outcome outcome = job_with([](int port) {
    Raw raw(port);
    raw.send(raw.proven(offer_of(7, 2)));
    EXPECT_TRUE(contains(raw.refusal(), "Rank 7"));
  });
  expect_undisturbed(outcome);
  EXPECT_TRUE(contains(outcome.log, "out of range")) << outcome.log;
}

TEST(Strangers, MessagesOutOfOrderAreRefused) {
  expect_undisturbed(job_with([](int port) {
    for (const auto type : {wire::Type::welcome, wire::Type::table, wire::Type::refusal}) {
      Raw raw(port);
      raw.send(wire::encode(wire::Frame{wire::kVersion, type, "abc"}));
      EXPECT_TRUE(contains(raw.refusal(), "makes no sense here"));
    }
  }));
}

TEST(Strangers, ARankWithoutTheSecretIsRefusedAndTold) {
  for (const Environment& theirs : {Environment(), with_secret("tulips in the snow")}) {
    std::string told;
    const auto come = [&](int port) {
      auto client = make_rendezvous({1, 2, concat("tcp://127.0.0.1:", port), kJob}, theirs);
      told = describe((*client)->all_gather("x", Deadline::after(0.7)));
    };
    const Outcome outcome = job_with(come, with_secret(kSecret));
    expect_undisturbed(outcome);
    EXPECT_TRUE(contains(told, "does not have the secret of this job")) << told;
    EXPECT_TRUE(contains(told, "WEFT_SECRET")) << told;
    EXPECT_TRUE(contains(outcome.log, "refused 127.0.0.1:")) << outcome.log;
    EXPECT_FALSE(contains(outcome.log + told, "tulips")) << outcome.log;
  }
}

TEST(Strangers, ARankWithASecretDoesNotJoinAJobWithoutOne) {
  const Outcome outcome = job_with([](int port) {
    const Environment theirs = with_secret(kSecret);
    auto client = make_rendezvous({1, 2, concat("tcp://127.0.0.1:", port), kJob}, theirs);
    const std::string told = describe((*client)->all_gather("x", Deadline::after(0.7)));
    EXPECT_TRUE(contains(told, "does not have the secret of this job")) << told;
  });
  expect_undisturbed(outcome);
}

TEST(Strangers, AMissingRankWithAWrongSecretIsNamedAtTheDeadline) {
  const int port = test::free_port();
  const std::string where = concat("tcp://127.0.0.1:", port);
  auto store = make_rendezvous({0, 2, where, kJob}, with_secret(kSecret));
  std::string said;
  std::thread rank0([&] { said = describe((*store)->all_gather("0", Deadline::after(0.5))); });
  auto client = make_rendezvous({1, 2, where, kJob}, Environment());
  (void)(*client)->all_gather("x", Deadline::after(20));
  rank0.join();
  EXPECT_TRUE(contains(said, "Rank 1 of 2 did not come")) << said;
  EXPECT_TRUE(contains(said, "does not have the secret of this job")) << said;
}

// What rank 1 said when it joined an earlier run of the job, said once more.
TEST(Strangers, AReplayedOfferIsRefused) {
  const Key key(kSecret);
  std::string overheard;
  const auto listen = [&](int port) { overheard = Raw(port).proven(offer_of(1, 2), key); };
  expect_undisturbed(job_with(listen, with_secret(kSecret)));
  const auto replay = [&](int port) {
    Raw raw(port);
    raw.send(overheard);
    EXPECT_TRUE(contains(raw.refusal(), "does not have the secret"));
  };
  expect_undisturbed(job_with(replay, with_secret(kSecret)));
}

// Who listens where the store might be, and says this to everybody who calls, gets nobody.
void expect_impostor_left_alone(const std::string& answer) {
  const Fd listener = listen_on(*SocketAddress::parse("127.0.0.1:0")).take();
  const int trap = local_address(listener)->port(), port = test::free_port();
  const std::string where = concat("tcp://127.0.0.1:", trap, ",127.0.0.1:", port);
  std::atomic<bool> done{false}, caught{false};
  std::thread impostor([&] {
    while (!done) {
      const Fd caller = accept_from(listener).take();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (!caller.valid()) continue;
      const std::string said = wire::encode(Nonce()) + answer;
      (void)send_all(caller, bytes_of(said), Deadline::after(5));
      std::byte offer[26];
      if (recv_all(caller, offer, Deadline::after(5)).ok()) caught = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  });
  std::string rank0;
  std::thread first([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    auto store =
        make_rendezvous({0, 2, concat("tcp://127.0.0.1:", port), kJob}, with_secret(kSecret));
    rank0 = describe((*store)->all_gather("0", Deadline::after(20)));
  });
  auto client = make_rendezvous({1, 2, where, kJob}, with_secret(kSecret));
  EXPECT_EQ(describe((*client)->all_gather("1", Deadline::after(20))), "ok: 0,1");
  first.join();
  done = true;
  impostor.join();
  EXPECT_EQ(rank0, "ok: 0,1");
  EXPECT_TRUE(caught) << "it was never called; nothing is tested";
}

TEST(Strangers, AStoreWithoutTheSecretIsLeftAlone) {
  const Key guess = wire::meeting_key(Key("a guess that is wrong"), kJob);
  const wire::Answer welcome(wire::Type::welcome, "", guess);
  expect_impostor_left_alone(welcome.head(guess, Nonce(), Nonce()));
}

TEST(Strangers, ARefusalWithoutTheSecretIsNotBelieved) {
  testing::internal::CaptureStderr();
  const wire::Refusal refusal{false, Status(Code::mismatch, "Go away, rank 7 is broken.", 7)};
  expect_impostor_left_alone(wire::encode(refusal));
  const Key guess = wire::meeting_key(Key("a guess that is wrong"), kJob);
  const wire::Answer verdict(wire::Type::verdict, wire::payload_of(refusal), guess);
  expect_impostor_left_alone(verdict.head(guess, Nonce(), Nonce()) + *verdict.payload());
  testing::internal::GetCapturedStderr();
}

// Stands between rank 1 and the store and changes one byte of what the store says.
class Relay {
 public:
  Relay(int port, size_t target)
      : port_(port),
        target_(target),
        listener_(listen_on(*SocketAddress::parse("127.0.0.1:0")).take()),
        thread_([this] { run(); }) {}
  ~Relay() {
    done_ = true;
    thread_.join();
  }
  int port() const { return local_address(listener_)->port(); }
  bool changed() const { return seen_ > target_; }

 private:
  void run() {
    Fd caller, store;
    while (!done_) {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
      if (!caller.valid()) {
        caller = accept_from(listener_).take();
        if (caller.valid())
          store = start_connect(*SocketAddress::parse(concat("127.0.0.1:", port_))).take();
      }
      if (!caller.valid() || !peer_address(store).ok()) continue;
      pass(caller, store, false);
      pass(store, caller, true);
    }
  }
  void pass(const Fd& from, const Fd& to, bool change) {
    char bytes[4096];
    const ssize_t got = ::recv(from.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (got <= 0) return;
    const size_t seen = seen_, count = static_cast<size_t>(got);
    if (change && target_ >= seen && target_ < seen + count) bytes[target_ - seen] ^= 4;
    if (change) seen_ = seen + count;
    (void)send_all(to, bytes_of({bytes, count}), Deadline::after(5));
  }

  const int port_;
  const size_t target_;
  const Fd listener_;
  std::atomic<bool> done_{false};
  std::atomic<size_t> seen_{0};
  std::thread thread_;
};

TEST(Strangers, AChangedTableIsNotBelieved) {
  constexpr size_t kTable =
      3 * wire::kHeaderBytes + sizeof(Nonce) + sizeof(KeyProof) + 4;  // its payload
  for (const size_t target : {kTable, kTable + 37, kTable + 40}) {
    const int port = test::free_port();
    auto store =
        make_rendezvous({0, 2, concat("tcp://127.0.0.1:", port), kJob}, with_secret(kSecret));
    std::thread first([&] { (void)(*store)->all_gather("a blob", Deadline::after(20)); });
    Relay relay(port, target);
    auto client = make_rendezvous({1, 2, concat("tcp://127.0.0.1:", relay.port()), kJob},
                                  with_secret(kSecret));
    const std::string told = describe((*client)->all_gather("another", Deadline::after(20)));
    first.join();
    EXPECT_TRUE(relay.changed());
    EXPECT_TRUE(contains(told, "changed on its way")) << told;
  }
}

TEST(Strangers, AFloodCostsNothing) {
  std::vector<Raw> silent;
  const Outcome outcome = job_with(
      [&](int port) {
        for (int i = 0; i < 500; ++i) silent.emplace_back(port);
        for (int i = 0; i < 500; ++i) Raw(port).send("GET / HTTP/1.0\r\n\r\n");
      },
      with_secret(kSecret));
  expect_undisturbed(outcome);
  EXPECT_LT(std::count(outcome.log.begin(), outcome.log.end(), '\n'), 40) << outcome.log;
}

TEST(Strangers, AMissingRankOfAnotherVersionIsNamedAtTheDeadline) {
  const int port = test::free_port();
  auto store = make_rendezvous({0, 2, concat("tcp://127.0.0.1:", port), kJob}, Environment());
  std::string said;
  std::thread rank0([&] { said = describe((*store)->all_gather("0", Deadline::after(0.5))); });
  std::string bytes = wire::encode(offer_of(1, 2));
  bytes[4] = 9;
  Raw raw(port);
  raw.send(bytes);
  raw.read_all();
  rank0.join();
  EXPECT_TRUE(contains(said, "Rank 1 of 2 did not come")) << said;
  EXPECT_TRUE(contains(said, "speaks version 9")) << said;
}

TEST(SlowRanks, ByteByByteIsFastEnough) {
  const int port = test::free_port();
  auto store = make_rendezvous({0, 3, concat("tcp://127.0.0.1:", port), kJob}, Environment());
  std::string said;
  std::thread rank0([&] { said = describe((*store)->all_gather("0", Deadline::after(20))); });
  std::thread rank2([&] {
    auto quick = make_rendezvous({2, 3, concat("tcp://127.0.0.1:", port), kJob}, Environment());
    EXPECT_EQ(describe((*quick)->all_gather("2", Deadline::after(20))), "ok: 0,1,2");
  });
  Raw raw(port);
  for (const char c : raw.proven(offer_of(1, 3))) {
    raw.send(std::string_view(&c, 1));
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  rank0.join();
  rank2.join();
  EXPECT_EQ(said, "ok: 0,1,2");
}

TEST(SlowRanks, WhoDiesWhileOthersComeIsNamed) {
  const int port = test::free_port();
  auto store = make_rendezvous({0, 3, concat("tcp://127.0.0.1:", port), kJob}, Environment());
  std::string said;
  std::thread rank0([&] { said = describe((*store)->all_gather("0", Deadline::after(20))); });
  Raw raw(port);
  raw.send(raw.proven(offer_of(1, 3)));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  raw.close();
  auto late = make_rendezvous({2, 3, concat("tcp://127.0.0.1:", port), kJob}, Environment());
  const std::string other = describe((*late)->all_gather("2", Deadline::after(20)));
  rank0.join();
  EXPECT_TRUE(contains(said, "peer lost: Rank 1 ended or died")) << said;
  EXPECT_EQ(other, said);
}

TEST(SlowRanks, WhoDoesNotReadItsAnswerIsNamed) {
  constexpr int kSize = 8;  // 8 blobs are more than a Unix socket holds
  const std::string name = concat("strangers-", ::getpid());
  const auto said = test::run(test::Mode::threads, kSize, [&](Rank r) -> std::string {
    if (r != 5) {
      auto meeting = make_rendezvous({r, kSize, concat("unix:", name), kJob}, Environment());
      const std::string blob(wire::kBlobBytes, 'x');
      return describe((*meeting)->all_gather(blob, Deadline::after(1))).substr(0, 60);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    Raw raw(*SocketAddress::parse(concat("@weft-", ::geteuid(), "-", name)));
    raw.send(raw.proven(offer_of(5, kSize)));
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    return "";
  });
  EXPECT_TRUE(contains(said[0], "timeout: Rank 5 did not take the answer")) << said[0];
  for (const Rank r : {1, 2, 3, 4, 6, 7})
    EXPECT_TRUE(contains(said[static_cast<size_t>(r)], "ok: xxx"));
}

// While the store waits for a rank that reads slowly.
TEST(SlowRanks, ASignalDoesNotMakeOneLate) {
  constexpr int kSize = 8;
  const std::string name = concat("signals-", ::getpid());
  struct sigaction action {
  }, before{};
  action.sa_handler = [](int) {};
  ASSERT_EQ(::sigaction(SIGUSR2, &action, &before), 0);
  const auto said = test::run(test::Mode::threads, kSize, [&](Rank r) -> std::string {
    if (r != 5) {
      std::atomic<bool> met{false};
      std::thread signals;
      if (r == 0)
        signals = std::thread([&met, store = ::pthread_self()] {
          while (!met) {
            ::pthread_kill(store, SIGUSR2);
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
          }
        });
      auto meeting = make_rendezvous({r, kSize, concat("unix:", name), kJob}, Environment());
      const std::string blob(wire::kBlobBytes, 'x');
      const std::string text = describe((*meeting)->all_gather(blob, Deadline::after(20)));
      met = true;
      if (signals.joinable()) signals.join();
      return text.substr(0, 60);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    Raw raw(*SocketAddress::parse(concat("@weft-", ::geteuid(), "-", name)));
    raw.send(raw.proven(offer_of(5, kSize)));
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    raw.read((kSize - 1) * wire::kBlobBytes);  // and a little more
    return "";
  });
  ::sigaction(SIGUSR2, &before, nullptr);
  for (const Rank r : {0, 1, 2, 3, 4, 6, 7})
    EXPECT_TRUE(contains(said[static_cast<size_t>(r)], "ok: xxx")) << said[static_cast<size_t>(r)];
}

}  // namespace
}  // namespace weft
