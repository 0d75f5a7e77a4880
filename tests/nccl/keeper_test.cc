// The keeper of a unique id, and who disturbs it: it believes nobody who does not prove to know the
// id and the secret, tells nobody else anything, and the ranks believe nobody else.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "base/socket.h"
#include "base/text.h"
#include "bootstrap/frame.h"
#include "bootstrap/place.h"
#include "nccl/ids.h"
#include "tests/support/connected.h"
#include "tests/support/contains.h"

namespace weft::nccl {
namespace {

using test::connected;

using Table = Result<std::vector<std::string>>;

using test::contains;

Environment with_secret(const std::string& secret) {
  Environment env;
  env.set("WEFT_SECRET", secret);
  return env;
}

Place place_of(const ncclUniqueId& id) { return *parse_id(std::string(id.internal)); }

// The same id, said to be kept at `addresses`.
ncclUniqueId kept_at(const ncclUniqueId& id, std::vector<SocketAddress> addresses) {
  ncclUniqueId moved{};
  id_text({std::move(addresses), place_of(id).job}).copy(moved.internal, NCCL_UNIQUE_ID_BYTES - 1);
  return moved;
}

Table meet(const ncclUniqueId& id, int rank, int size, double seconds = 20,
           const Environment& env = {}) {
  auto meeting = meet_by_id(id, rank, size, Options{}, env);
  if (!meeting.ok()) return meeting.status();
  return (*meeting)->all_gather(std::to_string(rank), Deadline::after(seconds));
}

void expect_all_of(int size, const Table& table) {
  ASSERT_TRUE(table.ok()) << table.status().to_string();
  for (int r = 0; r < size; ++r) EXPECT_EQ((*table)[static_cast<size_t>(r)], std::to_string(r));
}

// Ranks of a test, side by side; ends when all have.
class Together {
 public:
  ~Together() {
    for (std::thread& thread : threads_) thread.join();
  }
  void add(std::function<void()> body) { threads_.emplace_back(std::move(body)); }

 private:
  std::vector<std::thread> threads_;
};

// All that comes until the other end closes.
std::string read_all(const Fd& socket) {
  std::string text;
  std::byte byte{};
  while (recv_all(socket, std::span(&byte, 1), Deadline::after(5)).ok())
    text.push_back(static_cast<char>(byte));
  return text;
}

// Listens in a thread of its own, and does with callers what `serve` does until the end.
class Listener {
 public:
  explicit Listener(std::function<void(Fd)> serve)
      : listener_(listen_on(*SocketAddress::parse("127.0.0.1:0")).take()),
        thread_([this, serve = std::move(serve)] {
          while (!done_) {
            pollfd entry{listener_.get(), POLLIN, 0};
            if (::poll(&entry, 1, 10) == 1) serve(accept_from(listener_).take());
          }
        }) {}
  ~Listener() {
    done_ = true;
    thread_.join();
  }
  SocketAddress address() const { return *local_address(listener_); }

 private:
  std::atomic<bool> done_{false};
  const Fd listener_;
  std::thread thread_;
};

// Hears all that passes between one caller and the keeper.
class Relay {
 public:
  explicit Relay(const SocketAddress& keeper)
      : keeper_(keeper), listener_([this](Fd caller) { pass_on(caller); }) {}
  SocketAddress address() const { return listener_.address(); }
  std::string said() { return locked(said_); }
  std::string answered() { return locked(answered_); }

 private:
  std::string locked(const std::string& text) {
    const std::lock_guard lock(mutex_);
    return text;
  }

  void pass_on(const Fd& caller) {
    const Fd keeper = connected(keeper_);
    while (pass(caller, keeper, said_) && pass(keeper, caller, answered_)) {
    }
  }
  bool pass(const Fd& from, const Fd& to, std::string& heard) {
    pollfd entry{from.get(), POLLIN, 0};
    if (::poll(&entry, 1, 1) == 0) return true;
    std::array<char, 4096> chunk{};
    const ssize_t got = ::recv(from.get(), chunk.data(), chunk.size(), 0);
    if (got <= 0) return false;
    const std::string_view bytes(chunk.data(), static_cast<size_t>(got));
    const std::lock_guard lock(mutex_);
    heard.append(bytes);
    return send_all(to, bytes_of(bytes), Deadline::after(5)).ok();
  }

  const SocketAddress keeper_;
  std::mutex mutex_;
  std::string said_, answered_;
  Listener listener_;
};

// What the keeper would say, but for the proof.
std::string unproven(wire::Type type, const std::string& payload) {
  return wire::encode(
      wire::Frame{wire::kVersion, type, std::string(sizeof(KeyProof), 0) + payload});
}

void wait_until(const std::function<bool()>& happened) {
  const Deadline patience = Deadline::after(10);
  while (!happened() && !patience.expired())
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_FALSE(patience.expired());
}

// Who hears rank 0 announce its place learns no key, and says the same in vain.
TEST(Keeper, BelievesNoReplay) {
  for (const Environment& env : {Environment(), with_secret("tulips in the rain")}) {
    const auto id = make_id(env);
    ASSERT_TRUE(id.ok());
    const SocketAddress keeper = place_of(*id).addresses.front();
    Relay relay(keeper);
    {
      Together ranks;
      ranks.add([&] { expect_all_of(2, meet(kept_at(*id, {relay.address()}), 0, 2, 20, env)); });
      wait_until([&] { return contains(relay.answered(), "id:"); });  // rank 0's place, as told
      EXPECT_FALSE(contains(relay.said() + relay.answered(), place_of(*id).job));
      const Fd again = connected(keeper);
      EXPECT_TRUE(send_all(again, bytes_of(relay.said()), Deadline::after(5)).ok());
      const std::string answer = read_all(again);
      EXPECT_TRUE(contains(answer, "does not have the secret")) << answer;
      EXPECT_FALSE(contains(answer, "id:")) << answer;
      ranks.add([&] { expect_all_of(2, meet(*id, 1, 2, 20, env)); });
    }
  }
}

// Who answers in the keeper's place is not believed.
TEST(Keeper, IsNotAnybodyWhoAnswers) {
  const auto id = make_id({});
  std::atomic<int> called{0}, trapped{0};
  Listener trap([&](const Fd&) { ++trapped; });
  const std::string trap_place = id_text({{trap.address()}, "somewhere"});
  Listener impostor([&](const Fd& caller) {
    ++called;
    const std::string said =
        concat(wire::encode(Nonce()), unproven(wire::Type::welcome, ""),
               unproven(wire::Type::table, wire::payload_of({trap_place, ""})), trap_place);
    (void)send_all(caller, bytes_of(said), Deadline::after(5));
    EXPECT_FALSE(contains(read_all(caller), place_of(*id).job));
  });
  Together ranks;
  ranks.add([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    expect_all_of(2, meet(*id, 0, 2));
  });
  const SocketAddress keeper = place_of(*id).addresses.front();
  expect_all_of(2, meet(kept_at(*id, {impostor.address(), keeper}), 1, 2));
  EXPECT_GT(called, 0);
  EXPECT_EQ(trapped, 0);
}

TEST(Keeper, WantsTheSecret) {
  const Environment env = with_secret("tulips in the rain");
  const auto id = make_id(env);
  for (const int rank : {0, 1}) {
    const Table without = meet(*id, rank, 2, 20);
    EXPECT_EQ(without.status().code(), Code::mismatch);
    // Who has a secret believes no refusal without a proof, and waits for others.
    testing::internal::CaptureStderr();
    const Table other = meet(*id, rank, 2, 0.5, with_secret("tulips in the snow"));
    EXPECT_EQ(other.status().code(), Code::timeout);
    testing::internal::GetCapturedStderr();
    for (const Table* refused : {&without, &other}) {
      EXPECT_TRUE(contains(refused->status().message(), "does not have the secret"))
          << refused->status().message();
    }
  }
  Together ranks;
  for (const int rank : {0, 1})
    ranks.add([&, rank] { expect_all_of(2, meet(*id, rank, 2, 20, env)); });
}

TEST(Keeper, BelievesTheFirstRankZero) {
  const auto id = make_id({});
  Relay relay(place_of(*id).addresses.front());
  Together ranks;
  ranks.add([&] { expect_all_of(2, meet(kept_at(*id, {relay.address()}), 0, 2)); });
  wait_until([&] { return contains(relay.answered(), "id:"); });
  release_id(*id, {});  // which is in use
  for (const int size : {2, 3}) {
    const Table second = meet(*id, 0, size);
    ASSERT_FALSE(second.ok());
    EXPECT_EQ(second.status().code(), Code::mismatch);
    EXPECT_TRUE(contains(second.status().message(), "Another process"))
        << second.status().message();
  }
  expect_all_of(2, meet(*id, 1, 2));
}

// Who waits for rank 0 and goes takes the others along, those that come later, too.
TEST(Keeper, TellsThatARankIsGone) {
  const auto id = make_id({});
  const Deadline soon = Deadline::after(10);
  Together ranks;
  const auto is_told = [&](int rank) {
    const Table table = meet(*id, rank, 3);
    EXPECT_EQ(table.status().code(), Code::peer_lost) << table.status().to_string();
    EXPECT_TRUE(contains(table.status().message(), "Rank 1 ended"));
    EXPECT_EQ(table.status().peer(), 1);
    EXPECT_FALSE(soon.expired());
  };
  ranks.add([&] { is_told(2); });
  EXPECT_EQ(meet(*id, 1, 3, 1).status().code(), Code::timeout);
  is_told(0);
}

TEST(Keeper, TellsThatRankZeroIsGone) {
  const auto id = make_id({});
  EXPECT_EQ(meet(*id, 0, 2, 1).status().code(), Code::timeout);
  const Deadline soon = Deadline::after(10);
  const Table late = meet(*id, 1, 2);
  EXPECT_EQ(late.status().code(), Code::peer_lost) << late.status().to_string();
  EXPECT_TRUE(contains(late.status().message(), "Rank 0 ended"));
  EXPECT_FALSE(soon.expired());
}

// Rank 0 goes when another one knows where it is, but has not been welcomed there.
TEST(Keeper, IsNotNeededToFindThatRankZeroIsGone) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "a process forked beside threads can start none under ThreadSanitizer";
#endif
  using std::chrono_literals::operator""ms;
  const auto id = make_id({});
  const pid_t rank_0 = ::fork();
  if (rank_0 == 0) {
    (void)meet(*id, 0, 3);
    ::_exit(0);
  }
  std::this_thread::sleep_for(1000ms);  // it has said where it is
  ::kill(rank_0, SIGSTOP);
  Together ranks;
  ranks.add([&] {
    const Table table = meet(*id, 1, 3);
    EXPECT_EQ(table.status().code(), Code::peer_lost) << table.status().to_string();
    EXPECT_EQ(table.status().peer(), 0);
    EXPECT_TRUE(contains(table.status().message(), "nobody listens at "));
  });
  std::this_thread::sleep_for(300ms);
  ::kill(rank_0, SIGKILL);
  ::waitpid(rank_0, nullptr, 0);
}

// Whoever made the id is gone, and with it what it would have told.
TEST(Keeper, ThatIsGoneIsNotWaitedFor) {
  Fd once = listen_on(SocketAddress::parse("127.0.0.1:0").take()).take();
  const ncclUniqueId id = kept_at(*make_id({}), {local_address(once).take()});
  once.reset();
  for (const int rank : {0, 1}) {
    const Deadline soon = Deadline::after(5);
    const Table table = meet(id, rank, 2);
    EXPECT_EQ(table.status().code(), Code::peer_lost) << table.status().to_string();
    EXPECT_TRUE(contains(table.status().message(), "The maker of the unique id: Rank "));
    EXPECT_TRUE(contains(table.status().message(), "nobody listens at 127.0.0.1:"));
    EXPECT_FALSE(soon.expired());
  }
}

// Lines about strangers thin out, and what they send costs no memory.
TEST(Keeper, StandsGarbage) {
  const auto id = make_id({});
  const SocketAddress keeper = place_of(*id).addresses.front();
  testing::internal::CaptureStderr();
  const auto refused = [&](std::string_view bytes) {
    const Fd stranger = connected(keeper);
    (void)send_all(stranger, bytes_of(bytes), Deadline::after(5));
    return read_all(stranger);
  };
  EXPECT_TRUE(
      contains(refused(std::string_view("weft\2\0\1\0\xff\xff\xff\xff", 12)), "4294967295"));
  EXPECT_TRUE(contains(refused(unproven(wire::Type::table, "x")), "makes no sense"));
  for (int i = 0; i < 100; ++i) refused("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(contains(log, "weft warning: refused ")) << log;
  EXPECT_TRUE(contains(log, "does not speak weft's protocol")) << log;
  EXPECT_LT(std::count(log.begin(), log.end(), '\n'), 25) << log;
  Together ranks;
  for (const int rank : {0, 1}) ranks.add([&, rank] { expect_all_of(2, meet(*id, rank, 2)); });
}

}  // namespace
}  // namespace weft::nccl
