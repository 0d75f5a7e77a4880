// Ranks meet by an id whoever made it, and whoever else connects to its maker.
#include "nccl/ids.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "base/socket.h"
#include "base/text.h"
#include "bootstrap/place.h"
#include "tests/support/connected.h"

namespace weft::nccl {
namespace {

using test::connected;

// That every rank gets every rank's number.
void expect_meeting(const ncclUniqueId& id, int ranks, const Environment& env = Environment()) {
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      auto meet = meet_by_id(id, r, ranks, Options{}, env);
      ASSERT_TRUE(meet.ok()) << meet.status().to_string();
      auto all = (*meet)->all_gather(std::to_string(r), Deadline::after(30));
      ASSERT_TRUE(all.ok()) << all.status().to_string();
      for (int peer = 0; peer < ranks; ++peer) EXPECT_EQ((*all)[peer], std::to_string(peer));
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(Ids, BringRanksTogether) {
  for (const int ranks : {1, 2, 5}) {
    const auto id = make_id(Environment());
    ASSERT_TRUE(id.ok()) << id.status().to_string();
    expect_meeting(*id, ranks);
  }
}

TEST(Ids, AreDifferent) {
  const auto one = make_id(Environment()), other = make_id(Environment());
  EXPECT_NE(std::string(one->internal), std::string(other->internal));
}

TEST(Ids, StandStrangers) {
  const auto id = make_id(Environment());
  ASSERT_TRUE(id.ok());
  const auto place = parse_id(std::string(id->internal));
  ASSERT_TRUE(place.ok());
  const SocketAddress& address = place->addresses.front();
  std::vector<Fd> strangers;
  const std::string nonsense(2000, 'x');
  for (int i = 0; i < 300; ++i) {
    strangers.push_back(connected(address));
    const auto bytes = std::as_bytes(std::span(nonsense.data(), static_cast<size_t>(i) * 6));
    (void)send_all(strangers.back(), bytes, Deadline::after(1));  // it may have hung up
  }
  const Deadline soon = Deadline::after(5);
  expect_meeting(*id, 3);
  EXPECT_FALSE(soon.expired());
}

// That soon nobody is at the id's address any more.
void expect_end(const ncclUniqueId& id) {
  const SocketAddress address = parse_id(std::string(id.internal))->addresses.front();
  const Deadline patience = Deadline::after(10);
  const auto is_there = [&] {
    Result<Fd> socket = start_connect(address);
    if (!socket.ok()) return false;
    pollfd connecting{socket->get(), POLLOUT, 0};
    return ::poll(&connecting, 1, 1000) == 1 && connect_error(*socket).ok();
  };
  while (is_there() && !patience.expired())
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_FALSE(patience.expired());
}

TEST(Ids, EndWithTheirUse) {
  const auto id = make_id(Environment()), other = make_id(Environment());
  expect_meeting(*id, 3);
  release_id(*other, Environment());
  expect_end(*id);
  expect_end(*other);
}

// Some time later, in which those that are late are told why.
TEST(Ids, EndAfterAMeetingThatFailed) {
  Environment env;
  env.set("WEFT_TIMEOUT", "1.5");
  const auto one = make_id(env), other = make_id(env);
  const auto come = [&](const ncclUniqueId& id, int rank, double seconds) {
    const auto meet = meet_by_id(id, rank, 3, Options{}, env).take();
    return meet->all_gather("", Deadline::after(seconds)).status().code();
  };
  EXPECT_EQ(come(*one, 0, 0.3), Code::timeout);
  EXPECT_EQ(come(*one, 2, 5), Code::peer_lost);
  EXPECT_EQ(come(*other, 1, 0.3), Code::timeout);
  EXPECT_EQ(come(*other, 0, 5), Code::peer_lost);
  expect_end(*one);
  expect_end(*other);
}

// Where the maker is gone, ranks say so and do not wait for ever.
TEST(Ids, OfNobodyEndByTheDeadline) {
  ncclUniqueId id{};
  const std::string text = "id:127.0.0.1:1/0123456789abcdef0123456789abcdef";
  text.copy(id.internal, text.size());
  for (const int rank : {0, 1}) {
    auto meet = meet_by_id(id, rank, 2, Options{}, Environment());
    ASSERT_TRUE(meet.ok());
    const auto all = (*meet)->all_gather("", Deadline::after(0.3));
    ASSERT_FALSE(all.ok());
    EXPECT_NE(all.status().message().find("maker of the unique id"), std::string_view::npos)
        << all.status().message();
  }
}

TEST(Ids, MayBeAFixedAddress) {
  Result<Fd> free = listen_on(*SocketAddress::parse("127.0.0.1:0"));
  ASSERT_TRUE(free.ok());
  const std::string address = local_address(*free)->to_string();
  free->reset();
  const Environment env(std::map<std::string, std::string, std::less<>>{{"NCCL_COMM_ID", address}});
  const auto id = make_id(env);
  ASSERT_TRUE(id.ok());
  EXPECT_EQ(std::string(id->internal), concat("tcp://", address));
  expect_meeting(*id, 3, env);
}

Environment with(const std::string& name, const std::string& value) {
  Environment env;
  env.set(name, value);
  return env;
}

void expect_named(const Status& status, std::string_view name) {
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find(name), std::string_view::npos) << status.to_string();
}

// By the name that the user has set.
TEST(Ids, WrongSettingsAreNamed) {
  const Environment nonsense = with("NCCL_COMM_ID", "nonsense");
  expect_named(make_id(nonsense).status(), "NCCL_COMM_ID");
  for (const int rank : {0, 1})
    expect_named(meet_by_id({}, rank, 2, Options{}, nonsense).status(), "NCCL_COMM_ID");

  Result<Fd> taken = listen_on(*SocketAddress::parse("127.0.0.1:0"));
  ASSERT_TRUE(taken.ok());
  const Environment fixed = with("NCCL_COMM_ID", local_address(*taken)->to_string());
  expect_named(meet_by_id({}, 0, 2, Options{}, fixed).status(), "NCCL_COMM_ID");
  taken->reset();
  auto client = meet_by_id({}, 1, 2, Options{}, fixed);
  ASSERT_TRUE(client.ok());
  expect_named((*client)->all_gather("", Deadline::after(0.3)).status(), "NCCL_COMM_ID");

  expect_named(make_id(with("NCCL_SOCKET_IFNAME", "no-such-if")).status(), "NCCL_SOCKET_IFNAME");
  expect_named(make_id(with("NCCL_IB_GID_INDEX", "2000000000")).status(), "NCCL_IB_");
}

TEST(Ids, ThatAreNone) {
  ncclUniqueId id{};
  for (const char* text : {"", "x", "id:", "id:nowhere/key"}) {
    id = {};
    std::string(text).copy(id.internal, 64);
    EXPECT_EQ(meet_by_id(id, 0, 2, Options{}, Environment()).status().code(),
              Code::invalid_argument);
  }
}

}  // namespace
}  // namespace weft::nccl
