// TCP on the shared suite, with one connection per pair, with three, and encrypted; and how pairs
// get connected.
#include <chrono>
#include <cstring>
#include <random>
#include <thread>

#include "tests/transport/conformance.h"
#include "tests/transport/tcp_world.h"
#include "transport/backends.h"

namespace weft {
namespace {

using conformance::Mode;

conformance::Backend tcp_backend(int streams, bool encrypt = false) {
  conformance::Backend backend;
  backend.name = (encrypt ? "tls" : "tcp") + std::to_string(streams);
  backend.world = [streams, encrypt] {
    return [streams, encrypt](TransportConfig config) {
      config.streams = streams;
      config.encrypt = encrypt;
      return make_tcp(config);
    };
  };
  backend.modes = {Mode::threads, Mode::processes};
  backend.traits = {.send_from_memory = true, .recv_into_memory = true};
  backend.delivers_after_close = true;
  return backend;
}

INSTANTIATE_TEST_SUITE_P(Tcp, Conformance, testing::ValuesIn(conformance::cases(tcp_backend(1))),
                         conformance::case_name);
INSTANTIATE_TEST_SUITE_P(TcpStreams, Conformance,
                         testing::ValuesIn(conformance::cases(tcp_backend(3))),
                         conformance::case_name);

INSTANTIATE_TEST_SUITE_P(TcpEncrypted, Conformance,
                         testing::ValuesIn(conformance::cases(tcp_backend(2, true))),
                         conformance::case_name);

}  // namespace

namespace tcp {
namespace {

TEST(Tcp, AFilterThatMatchesNoInterfaceIsAClearError) {
  TransportConfig config = config_of(0, 2);
  config.interfaces = "=no-such-if";
  const auto made = make_tcp(config, {});
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.status().code(), Code::invalid_argument);
  for (const char* part : {"no-such-if", "WEFT_SOCKET_IFNAME", "lo"})
    EXPECT_NE(made.status().message().find(part), std::string_view::npos)
        << made.status().to_string();
}

TEST(Tcp, ImpossibleConfigurationsAreClearErrors) {
  for (const auto& [config, part] :
       {std::pair(config_of(2, 2), "Rank 2"), std::pair(config_of(-1, 2), "Rank -1"),
        std::pair(config_of(0, 0), "0 ranks"), std::pair(config_of(0, 2, 0), "0 connections"),
        std::pair(config_of(0, 2, 65), "65 connections")}) {
    const auto made = make_tcp(config, {});
    ASSERT_FALSE(made.ok());
    EXPECT_NE(made.status().message().find(part), std::string_view::npos)
        << made.status().to_string();
  }
}

TEST(Tcp, BadAddressesAreErrorsThatNameTheRank) {
  auto rank = make_tcp(config_of(0, 3), {}).take();
  EXPECT_FALSE(rank->join({"", ""}).ok());
  const Status status = rank->join({rank->address(), "", "rubbish"});
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("rank 2"), std::string_view::npos) << status.to_string();
  EXPECT_NE(status.message().find("rubbish"), std::string_view::npos) << status.to_string();
}

TEST(Tcp, NothingPacesConnectionsWithinAHost) {
  World world(2, 3);
  world.expect_talk(0, 1);
  const std::vector<std::string> controls = congestion_controls();
  EXPECT_GE(controls.size(), 2u);
  const std::string usual = congestion_control(*listen_on(*SocketAddress::parse("127.0.0.1:0")));
  for (const std::string& control : controls) EXPECT_EQ(control, usual == "bbr" ? "reno" : usual);
}

// Both open at the same time, in every order of events that the seeds give.
TEST(Tcp, CallsThatCrossBecomeOneConnection) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    World world(2, 1 + static_cast<int>(seed % 3));
    const LinkShape shape{2, 64};
    SendLink* out[2];
    RecvLink* in[2];
    for (Rank rank = 0; rank < 2; ++rank) {
      out[rank] = &world[rank].open_send(1 - rank, 1, shape);
      in[rank] = &world[rank].open_recv(1 - rank, 1, shape);
      for (uint32_t polls = random() % 4; polls > 0; --polls) world[rank].poll();
    }
    int sent[2] = {0, 0}, got[2] = {0, 0};
    const Deadline deadline = soon();
    while (got[0] + got[1] < 40 && !deadline.expired()) {
      const Rank rank = static_cast<Rank>(random() % 2);
      for (uint32_t polls = random() % 3; polls > 0; --polls) world[rank].poll();
      if (sent[rank] < 20 && !out[rank]->reserve().empty())
        out[rank]->commit(0, static_cast<uint64_t>(sent[rank]++));
      if (const Message* message = in[rank]->peek()) {
        ASSERT_EQ(message->tag, static_cast<uint64_t>(got[rank]++));
        in[rank]->release();
      }
    }
    ASSERT_EQ(got[0] + got[1], 40) << "seed " << seed << ": " << out[0]->status().to_string()
                                   << " / " << out[1]->status().to_string();
  }
}

// World, but rank 0 is given another address for rank 1 than its own.
void expect_talk_at(const std::function<std::vector<SocketAddress>(const RankAddress&)>& listeners,
                    const Times& times = {}) {
  std::vector<std::unique_ptr<Transport>> ranks;
  for (Rank rank = 0; rank < 2; ++rank) ranks.push_back(make_tcp(config_of(rank, 2), times).take());
  RankAddress address = decode_rank_address(ranks[1]->address()).take();
  address.listeners = listeners(address);
  ASSERT_TRUE(ranks[0]->join({ranks[0]->address(), encode(address)}).ok());
  ASSERT_TRUE(ranks[1]->join({ranks[0]->address(), ranks[1]->address()}).ok());
  SendLink& out = ranks[0]->open_send(1, 1, {1, 64});  // opens first, so it calls
  const std::vector<Transport*> both = {ranks[0].get(), ranks[1].get()};
  for (int i = 0; i < 3; ++i) ranks[0]->poll();
  RecvLink& in = ranks[1]->open_recv(0, 1, {1, 64});
  ASSERT_TRUE(poll_until(both, [&] { return !out.reserve().empty(); }));
  out.commit(0, 5);
  ASSERT_TRUE(poll_until(both, [&] { return in.peek() != nullptr; }));
  EXPECT_EQ(in.peek()->tag, 5u);
}

TEST(Tcp, IPv6) {
  const auto loopback = SocketAddress::parse("[::1]:0").take();
  if (!listen_on(loopback).ok()) GTEST_SKIP() << "there is no IPv6 here";
  expect_talk_at([](const RankAddress& address) {
    std::vector<SocketAddress> v6;
    for (const SocketAddress& listener : address.listeners)
      if (listener.to_string().starts_with("[::1]")) v6.push_back(listener);
    EXPECT_EQ(v6.size(), 1u);
    return v6;
  });
}

// A port where nobody listens, one that belongs to another program, one that never answers, another
// rank's: the next address is tried.
TEST(Tcp, WrongAddressesArePassedOver) {
  const auto any = SocketAddress::parse("127.0.0.1:0").take();
  const Fd silent = listen_on(any).take();
  auto stranger = make_tcp(config_of(0, 2), {}).take();  // rank 0 itself, or one that thinks so
  TransportConfig other_job = config_of(1, 2);
  other_job.job = "another job";
  auto other = make_tcp(other_job, {}).take();
  const auto first_of = [](Transport& transport) {
    return decode_rank_address(transport.address())->listeners.back();
  };
  std::atomic<bool> over = false;
  std::thread pump([&] {
    while (!over) {
      stranger->wait(Deadline::after(0.01));
      other->wait(Deadline::after(0.01));
    }
  });
  Times times;
  times.answer = 0.2;
  expect_talk_at(
      [&](const RankAddress& address) {
        std::vector<SocketAddress> listeners = {SocketAddress::parse("127.0.0.1:1").take(),
                                                local_address(silent).take(), first_of(*other),
                                                first_of(*stranger)};
        listeners.insert(listeners.end(), address.listeners.begin(), address.listeners.end());
        return listeners;
      },
      times);
  over = true;
  pump.join();
}

// Both write much more than sockets hold before either reads.
TEST(Tcp, BothMayWriteFirst) {
  constexpr uint32_t kBytes = 4 << 20;
  constexpr uint64_t kCount = 6;
  for (const int streams : {1, 3}) {
    World world(2, streams);
    SendLink* out[2];
    RecvLink* in[2];
    std::vector<std::byte> data[2];
    for (Rank rank = 0; rank < 2; ++rank) {
      out[rank] = &world[rank].open_send(1 - rank, 1, {kCount, kBytes});
      in[rank] = &world[rank].open_recv(1 - rank, 1, {kCount, kBytes});
      data[rank] = conformance::pattern(kBytes, static_cast<uint64_t>(rank));
    }
    for (uint64_t i = 0; i < kCount; ++i)
      for (Rank rank = 0; rank < 2; ++rank)
        ASSERT_TRUE(world.until([&] { return out[rank]->send(data[rank], i).has_value(); }));
    for (Rank rank = 0; rank < 2; ++rank) {
      for (uint64_t i = 0; i < kCount; ++i) {
        ASSERT_TRUE(world.until([&] { return in[rank]->peek() != nullptr; }));
        EXPECT_EQ(in[rank]->peek()->tag, i);
        EXPECT_TRUE(conformance::same_bytes(in[rank]->peek()->data, data[1 - rank]));
        in[rank]->release();
      }
      for (Ticket ticket = 1; ticket <= kCount; ++ticket)
        EXPECT_TRUE(world.until([&] { return out[rank]->done(ticket); }));
    }
  }
}

// More is on its way than sockets hold when the sender goes, and credits still come back to it.
TEST(Tcp, ALargeQueueOutlivesItsSender) {
  constexpr uint32_t kBytes = 2 << 20;
  constexpr uint64_t kCount = 8;
  World world(2);
  SendLink& out = world[0].open_send(1, 1, {kCount, kBytes});
  RecvLink& in = world[1].open_recv(0, 1, {kCount, kBytes});
  std::vector<std::vector<std::byte>> data;
  for (uint64_t i = 0; i < kCount; ++i) data.push_back(conformance::pattern(kBytes, i));
  for (uint64_t i = 0; i < kCount; ++i) {
    ASSERT_TRUE(world.until([&] { return !out.reserve().empty(); }));
    std::memcpy(out.reserve().data(), data[i].data(), kBytes);
    out.commit(kBytes, i);
  }
  std::thread closer([&] { world.close(0); });
  const Deadline deadline = soon();
  for (uint64_t i = 0; i < kCount; ++i) {
    while (!in.peek() && in.status().ok() && !deadline.expired()) world[1].wait(deadline);
    if (!in.peek()) {
      ADD_FAILURE() << "message " << i << ": " << in.status().to_string();
      break;
    }
    EXPECT_TRUE(conformance::same_bytes(in.peek()->data, data[i]));
    in.release();
  }
  closer.join();
}

// A message that came while another link was looked at ends the next wait.
TEST(Tcp, WhatCameUnseenEndsAWait) {
  World world(2);
  world.expect_talk(1, 0, 1);
  world.expect_talk(1, 0, 2);
  SendLink& out = world[1].open_send(0, 1, {2, 64});
  ASSERT_TRUE(world.until([&] { return !out.reserve().empty(); }));
  for (int i = 0; i < 10; ++i) world[0].wait(Deadline::after(0.001));
  out.commit(0, 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(world[0].open_recv(1, 2, {2, 64}).peek(), nullptr);
  world[0].poll();
  const int64_t begin = steady_clock().now_ns();
  world[0].wait(Deadline::after(3));
  EXPECT_LT(steady_clock().now_ns() - begin, 1'500'000'000);
  EXPECT_NE(world[0].open_recv(1, 1, {2, 64}).peek(), nullptr);
}

// What a wait sends first finds that the connection is gone, and nothing is left to wake it.
TEST(Tcp, ALossThatAWaitBringsAboutEndsIt) {
  World world(2, 1, 1);
  RawPeer peer(world[0]);
  peer.connect(1, 0);
  peer.write(Frame{FrameKind::note, 0, 0, 0, 0});
  ASSERT_TRUE(poll_until({&world[0]}, [&] { return world[0].hear().has_value(); }));
  world[0].wait(Deadline());  // what came; that the note was heard is still to be said
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  ASSERT_EQ(::setsockopt(peer.fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
  peer.close();
  const int64_t begin = steady_clock().now_ns();
  world[0].wait(Deadline::after(3));
  EXPECT_LT(steady_clock().now_ns() - begin, 1'500'000'000);
  EXPECT_EQ(world[0].peer_status(1).code(), Code::peer_lost);
}

TEST(Tcp, SomebodyWhoHasClosedSaysSoToALateCaller) {
  World world(2);
  world.expect_talk(0, 1);
  world.close(1);
  ASSERT_TRUE(world.until([&] { return !world[0].peer_status(1).ok(); }));
  EXPECT_NE(world[0].peer_status(1).message().find("has closed its communicator"),
            std::string_view::npos)
      << world[0].peer_status(1).to_string();
}

}  // namespace
}  // namespace tcp
}  // namespace weft
