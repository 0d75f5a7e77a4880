// What strangers, broken peers and deaths do to TCP: nothing but a clear error of the one to blame.
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <random>
#include <string>

#include "tests/support/child.h"
#include "tests/transport/conformance.h"
#include "tests/transport/tcp_world.h"

namespace weft::tcp {
namespace {

using conformance::pattern;

constexpr LinkId kLink = 3;

// Both have the same epoll set.
TEST(TcpPoller, AForkedChildLeavesWhatIsWatchedAlone) {
  struct Counted final : tcp::Pollable {
    void ready(uint32_t) override { ++times; }
    int times = 0;
  } counted;
  tcp::Poller poller;
  ASSERT_TRUE(poller.open().ok());
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const Fd write_end(ends[1]);
  auto watched = std::make_unique<tcp::WatchedFd>(poller);
  ASSERT_TRUE(watched->watch(Fd(ends[0]), counted).ok());
  ASSERT_EQ(test::in_child([&] { watched.reset(); }), 0);
  ASSERT_EQ(::write(write_end.get(), "!", 1), 1);
  poller.run(1000);
  EXPECT_EQ(counted.times, 1);
}

TEST(TcpFaults, StrangersAreRefusedAndTheJobGoesOn) {
  World world(3);
  testing::internal::CaptureStderr();
  for (const char* text : {"GET / HTTP/1.1\r\nHost: weft\r\n\r\n", "\x16\x03\x01 hello",
                           "\xf7 almost a hello, but not quite, and long enough for one......"}) {
    RawPeer stranger(world[0]);
    stranger.write(text);
    EXPECT_TRUE(stranger.is_hung_up_on());
  }
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("Refused a connection from "), std::string::npos) << log;
  EXPECT_NE(log.find("does not speak weft's protocol"), std::string::npos) << log;
  world.expect_talk(0, 1);
}

TEST(TcpFaults, WrongHellosAreAnsweredAndRefused) {
  World world(3);
  testing::internal::CaptureStderr();
  const auto answer_to = [&](const std::function<void(Hello&)>& change) {
    RawPeer caller(world[0]);
    Hello hello = RawPeer::hello(1, 0);
    change(hello);
    const std::optional<Answer> answer = caller.call(hello);
    EXPECT_TRUE(caller.is_hung_up_on());
    return answer;
  };
  EXPECT_EQ(answer_to([](Hello& h) { h.job = badge_of("another", {}).job; }), Answer::other_job);
  EXPECT_EQ(answer_to([](Hello& h) { h.version = 99; }), Answer::other_version);
  EXPECT_EQ(answer_to([](Hello& h) { h.to = 2; }), Answer::other_rank);
  EXPECT_EQ(answer_to([](Hello& h) { h.from = 0; }), Answer::other_rank);
  EXPECT_EQ(answer_to([](Hello& h) { h.from = 3; }), Answer::other_rank);
  EXPECT_EQ(answer_to([](Hello& h) { h.from = -7; }), Answer::other_rank);
  EXPECT_EQ(answer_to([](Hello& h) { h.stream = 1; }), Answer::closed);
  EXPECT_EQ(answer_to([](Hello& h) { h.stream = ~0u, h.streams = ~0u; }), Answer::closed);
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("another job"), std::string::npos) << log;
  EXPECT_NE(log.find("version 99"), std::string::npos) << log;
  world.expect_talk(1, 0);
  EXPECT_EQ(answer_to([](Hello&) {}), Answer::connected);
  world.expect_talk(1, 0);
}

TEST(TcpFaults, WhoNeverSaysHelloIsSentAway) {
  Times times;
  times.answer = 0.1;
  World world(2, 1, kNobody, times);
  testing::internal::CaptureStderr();
  RawPeer silent(world[0]);
  RawPeer slow(world[0]);
  slow.write(ConstBytes(slow.proven(RawPeer::hello(1, 0))).first(20));
  world.expect_talk(0, 1);
  EXPECT_TRUE(silent.is_hung_up_on());
  EXPECT_TRUE(slow.is_hung_up_on());
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("did not say who it is"), std::string::npos) << log;
  world.expect_talk(0, 1);
}

// Of one that was never connected, too, survivors must find out that its cable is cut. Here the
// kernel drops what would connect, as its queue is full, or refuses it, as nobody listens; the
// latter may be this rank's own host at an address that both have.
TEST(TcpFaults, AHostThatTakesNoConnectionIsSilent) {
  constexpr double kLong_s = 0.5;
  const Fd full = listen_on(SocketAddress::parse("127.0.0.1:0").take(), 0).take();
  const SocketAddress dropping = local_address(full).take();
  std::vector<Fd> queue;
  for (int i = 0; i < 4; ++i) queue.push_back(start_connect(dropping).take());
  const Fd nobody(::socket(AF_INET, SOCK_STREAM, 0));
  const sockaddr_in any{
      .sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
  ASSERT_EQ(::bind(nobody.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any), 0);
  const SocketAddress refusing = local_address(nobody).take();
  Times times;
  times.connect = times.retry_max = 0.1;  // both addresses are tried again and again
  times.gone = 0.2;
  const auto silence_of = [&](const std::vector<SocketAddress>& there) {
    const auto low = make_tcp(config_of(0, 2), times).take();
    if (!low->join({low->address(), encode(RankAddress{"one host", 1, there})}).ok()) return -1.0;
    low->open_send(1, kLink, {2, 64});
    (void)poll_until({low.get()},
                     [&] { return low->silence_s(1) > kLong_s || !low->peer_status(1).ok(); });
    return low->silence_s(1);
  };
  EXPECT_GT(silence_of({dropping}), kLong_s);
  EXPECT_GT(silence_of({dropping, refusing}), kLong_s);
  EXPECT_LT(silence_of({refusing}), kLong_s);  // it is lost at once
}

// A call that is dropped for the other rank's must not say hello any more, though its connection
// was made in the very round in which it was dropped: it would be welcomed beside the one that is
// taken.
TEST(TcpFaults, ACallThatIsDroppedSaysNothing) {
  const Fd listener = listen_on(SocketAddress::parse("127.0.0.1:0").take()).take();
  const auto low = make_tcp(config_of(0, 2), {}).take();
  const RankAddress high{"one host", 1, {local_address(listener).take()}};
  ASSERT_TRUE(low->join({low->address(), encode(high)}).ok());
  RawPeer caller(*low);
  const HelloBytes bytes = caller.proven(RawPeer::hello(1, 0));
  low->open_send(1, kLink, {2, 64});
  low->poll();  // calls
  const Fd called = accept_from(listener).take();
  ASSERT_TRUE(called.valid());
  caller.write(bytes);
  ASSERT_TRUE(send_all(called, encode(Challenge()), soon()).ok());
  low->poll();  // hears the other's hello, and then that it may say its own
  AnswerBytes answer;
  ASSERT_TRUE(caller.read(answer));
  EXPECT_EQ(decode_answer(answer), Answer::welcome);
  std::byte hello;
  ssize_t got = -1;
  poll_until({low.get()}, [&] { return (got = ::recv(called.get(), &hello, 1, 0)) >= 0; });
  EXPECT_EQ(got, 0) << "it said hello";
}

// A rank that nothing was ever opened for leaves no connection that could end.
TEST(TcpFaults, WhoEndedBeforeTheFirstCallIsLost) {
  World world(3);
  world.close(1);
  world[0].open_send(1, kLink, {2, 64});
  ASSERT_TRUE(world.until([&] { return !world[0].peer_status(1).ok(); }));
  EXPECT_EQ(world[0].peer_status(1).code(), Code::peer_lost);
  EXPECT_EQ(world[0].peer_status(1).peer(), 1);
  EXPECT_NE(world[0].peer_status(1).message().find("ended"), std::string_view::npos);
  world.expect_talk(0, 2);
}

// In a process of its own, for the limit cannot be raised again.
TEST(TcpFaults, WhoHasNoDescriptorsLeftSaysSo) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    World world(2);
    const rlimit none{4, 4};
    ::setrlimit(RLIMIT_NOFILE, &none);
    world[0].open_send(1, kLink, {2, 64});
    const bool noticed = world.until([&] { return !world[0].peer_status(1).ok(); });
    const Status status = world[0].peer_status(1);
    const bool said = status.message().find("ulimit -n") != std::string_view::npos;
    const bool own = status.code() == Code::system && status.peer() == 0;  // not rank 1's fault
    ::_exit(noticed && said && own ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

// Connections of this process that ask their peers for signs of life.
int kept_alive() {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    int on = 0;
    socklen_t size = sizeof on;
    const int fd = std::stoi(entry.path().filename());
    count += ::getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, &size) == 0 && on;
  }
  return count;
}

// While somebody is expected to start, nobody is called in his place, and nothing is owed to him.
TEST(TcpFaults, WhetherAGuestsHostIsStillThereIsAsked) {
  World world(2);
  RawPeer guest(world[0]);
  const int others = kept_alive();
  ASSERT_EQ(guest.call(RawPeer::hello(1, 0)), Answer::welcome);
  EXPECT_EQ(kept_alive(), others + 1);
}

// A forked child holds copies of all descriptors: closing them here does not end their events.
TEST(TcpFaults, AForkedChildRaisesNoEventsOfWhatIsClosed) {
  int alive[2];
  ASSERT_EQ(::pipe(alive), 0);
  World world(3);
  RawPeer stranger(world[0]), guest(world[0]);
  ASSERT_EQ(guest.call(RawPeer::hello(1, 0)), Answer::welcome);
  world.expect_talk(0, 2);
  std::fflush(nullptr);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    char byte = 0;
    ::close(alive[1]);
    const ssize_t got = ::read(alive[0], &byte, 1);
    ::_exit(static_cast<int>(got));
  }
  ::close(alive[0]);
  testing::internal::CaptureStderr();
  stranger.write("GET / HTTP/1.1\r\n");  // is turned away
  world.expect_talk(0, 1);               // the guest is sent away
  for (int i = 0; i < 20; ++i) world[0].poll();
  for (int i = 0; i < 20; ++i) {
    stranger.write("more");
    guest.write("more");
    world[0].poll();
  }
  testing::internal::GetCapturedStderr();
  world.expect_talk(0, 1);
  ::close(alive[1]);
  ::waitpid(child, nullptr, 0);
}

class NoHost final : public Host {
 public:
  Answer admit(const Hello&) override { return Answer::closed; }
  void arrived(const Hello&, Connection) override {}
  void left(const Hello&) override {}
};

// 198.51.100.7 is nobody's; a tentative IPv6 address cannot be bound either.
TEST(TcpFaults, AnAddressThatCannotBeBoundIsLeftOut) {
  Hub hub(0, Badge(), Times());
  ASSERT_TRUE(hub.poller.open().ok());
  NoHost host;
  const SocketAddress good = SocketAddress::parse("127.0.0.1:0").take();
  const SocketAddress bad = SocketAddress::parse("198.51.100.7:0").take();
  const SocketAddress worse = SocketAddress::parse("203.0.113.7:0").take();
  Reception some(hub, host);
  testing::internal::CaptureStderr();
  const Status opened = some.open({bad, good, worse});
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(opened.ok()) << opened.to_string();
  EXPECT_EQ(some.listeners().size(), 1u);
  EXPECT_NE(log.find("198.51.100.7"), std::string::npos) << log;
  EXPECT_NE(log.find("203.0.113.7"), std::string::npos) << log;

  Reception none(hub, host);
  testing::internal::CaptureStderr();
  const Status failed = none.open({bad, worse});
  testing::internal::GetCapturedStderr();
  ASSERT_FALSE(failed.ok());
  for (const char* part : {"198.51.100.7", "203.0.113.7", "Cannot assign"})
    EXPECT_NE(failed.message().find(part), std::string_view::npos) << failed.to_string();
}

TEST(TcpFaults, ACallerThatGivesUpAfterTheWelcomeIsNoDeath) {
  World world(2);
  {
    RawPeer caller(world[0]);
    EXPECT_EQ(caller.call(RawPeer::hello(1, 0)), Answer::welcome);
  }
  for (int i = 0; i < 20; ++i) world[0].poll();
  EXPECT_TRUE(world[0].peer_status(1).ok());
  world.expect_talk(0, 1);
}

TEST(TcpFaults, ALostPeerTurnsAwayItsNextCall) {
  World world(2, 1, 1);
  RawPeer peer(world[0]);
  peer.connect(1, 0);
  peer.write("rubbish that is at least as long as a frame");
  ASSERT_TRUE(world.until([&] { return !world[0].peer_status(1).ok(); }));
  RawPeer again(world[0]);
  EXPECT_EQ(again.call(RawPeer::hello(1, 0)), Answer::closed);
}

// ---- frames of a connected peer

constexpr LinkShape kShape{2, 128};

// What rank 0 says about rank 1 after it sent this, with a receiving and a sending end open.
std::string said_about(const std::function<void(RawPeer&)>& write) {
  World world(3, 1, 1);
  RawPeer peer(world[0]);
  world[0].open_recv(1, kLink, kShape);
  world[0].open_send(1, kLink, kShape);
  peer.connect(1, 0);
  peer.write(Frame{FrameKind::open_recv, kLink, 0, kShape.slots, kShape.slot_bytes});
  write(peer);
  EXPECT_TRUE(world.until([&] { return !world[0].peer_status(1).ok(); }));
  const Status status = world[0].peer_status(1);
  EXPECT_EQ(status.code(), Code::peer_lost);
  EXPECT_EQ(status.peer(), 1);
  EXPECT_TRUE(world[0].peer_status(2).ok());
  world.expect_talk(0, 2);
  return std::string(status.message());
}

void expect_said(const std::string& part, const std::function<void(RawPeer&)>& write) {
  const std::string said = said_about(write);
  EXPECT_NE(said.find(part), std::string::npos) << "'" << part << "' is not in: " << said;
}

TEST(TcpFaults, BrokenFramesAreErrorsOfTheirSender) {
  const auto data = [](LinkId id, uint32_t length, uint64_t sequence) {
    return Frame{FrameKind::data, id, length, sequence, 0};
  };
  expect_said("no frame", [](RawPeer& p) { p.write(std::string(64, 'x')); });
  expect_said("link 9, which is not open", [&](RawPeer& p) { p.write(data(9, 8, 0)); });
  expect_said("too long", [&](RawPeer& p) { p.write(data(kLink, 129, 0)); });
  expect_said("too long", [&](RawPeer& p) { p.write(data(kLink, ~0u, 0)); });
  expect_said("no credit", [&](RawPeer& p) { p.write(data(kLink, 8, 2)); });
  expect_said("no credit", [&](RawPeer& p) { p.write(data(kLink, 8, ~uint64_t{0})); });
  expect_said("sent before", [&](RawPeer& p) {
    p.write(data(kLink, 0, 1));
    p.write(data(kLink, 0, 1));
  });
  expect_said("which were not sent", [](RawPeer& p) {
    p.write(Frame{FrameKind::credit, kLink, 0, 1, 0});
  });
  expect_said("which were not sent", [](RawPeer& p) {
    p.write(Frame{FrameKind::credit, 77, 0, 0, 0});
  });
  expect_said("note of kind 3, which there is not", [](RawPeer& p) {
    p.write(Frame{FrameKind::note, kNoteKinds, 0, 0, 0});
  });
  expect_said("note of kind 1 before the last one was heard", [](RawPeer& p) {
    for (int i = 0; i < 2; ++i) p.write(Frame{FrameKind::note, 1, 0, 0, 0});
  });
  for (const LinkId kind : {LinkId{0}, LinkId{kNoteKinds}, ~LinkId{0}})
    expect_said("which was not sent", [kind](RawPeer& p) {
      p.write(Frame{FrameKind::heard, kind, 0, 0, 0});
    });
  expect_said("0 slots", [](RawPeer& p) { p.write(Frame{FrameKind::open_send, 5, 0, 0, 64}); });
  expect_said("slots of", [](RawPeer& p) {
    p.write(Frame{FrameKind::open_send, 5, 0, 1ull << 32, 64});
  });
  expect_said("second start", [](RawPeer& p) { p.write(Frame{}); });
  expect_said("without a goodbye", [](RawPeer& p) { p.close(); });
  expect_said("without a goodbye", [](RawPeer& p) { ::shutdown(p.fd(), SHUT_WR); });
  expect_said("closed its communicator", [](RawPeer& p) { p.write(Frame{FrameKind::bye}); });
}

TEST(TcpFaults, OpeningLinksWithoutEndIsAnError) {
  expect_said("more than 65536 links", [](RawPeer& p) {
    std::vector<std::byte> frames;
    for (LinkId id = 0; id < 65600; ++id) {
      const FrameHeader header = encode(Frame{FrameKind::open_send, 100 + id, 0, 1, 64});
      frames.insert(frames.end(), header.begin(), header.end());
    }
    p.write_anyhow(frames);
  });
}

// A credit frees the buffer of a message, which must have left before.
TEST(TcpFaults, CreditsForMessagesThatHaveNotLeftAreAnError) {
  constexpr LinkShape kLarge{2, 8 << 20};
  Times times;
  times.close = 0.1;
  World world(2, 1, 1, times);
  RawPeer peer(world[0]);
  SendLink& out = world[0].open_send(1, kLink, kLarge);
  peer.connect(1, 0);
  peer.write(Frame{FrameKind::open_recv, kLink, 0, kLarge.slots, kLarge.slot_bytes});
  for (uint64_t i = 0; i < kLarge.slots; ++i) {
    ASSERT_TRUE(world.until([&] { return !out.reserve().empty(); }));
    out.commit(kLarge.slot_bytes, i);
  }
  ASSERT_FALSE(out.flushed()) << "the sockets took it all; nothing is tested";
  peer.write(Frame{FrameKind::credit, kLink, 0, kLarge.slots, 0});
  EXPECT_TRUE(world.until([&] { return !world[0].peer_status(1).ok(); }));
  EXPECT_NE(world[0].peer_status(1).message().find("gave credits for 2"), std::string_view::npos)
      << world[0].peer_status(1).to_string();
}

// Frames of every kind with random fields: errors at most.
// Its address says two connections, its hello one, while the second is being dialled.
TEST(TcpFaults, WhoWantsFewerConnectionsThanItSaidGetsThose) {
  const auto listener = listen_on(SocketAddress::parse("127.0.0.1:0").take()).take();
  const SocketAddress there = local_address(listener).take();
  auto rank = make_tcp(config_of(1, 2, 2), Times()).take();
  ASSERT_TRUE(rank->join({encode(RankAddress{"one host", 2, {there}}), rank->address()}).ok());
  rank->open_send(0, kLink, {2, 64});
  std::vector<Fd> called;
  ASSERT_TRUE(poll_until({rank.get()}, [&] {
    auto caller = accept_from(listener);
    if (caller.ok() && caller->valid()) called.push_back(caller.take());
    return called.size() == 2;
  }));
  RawPeer peer(*rank);
  Hello hello = RawPeer::hello(0, 1);
  hello.streams = 1;
  ASSERT_EQ(peer.call(hello), Answer::welcome);
  // Both calls are answered all the same.
  const Badge badge = badge_of(kJob, Key());
  for (const Fd& socket : called) {
    ASSERT_TRUE(send_all(socket, encode(Challenge()), soon()).ok());
    HelloBytes said{};
    size_t got = 0;
    ASSERT_TRUE(poll_until({rank.get()}, [&] {
      const ssize_t some = ::recv(socket.get(), &said[got], said.size() - got, MSG_DONTWAIT);
      if (some > 0) got += static_cast<size_t>(some);
      return got == said.size();
    }));
    const AnswerBytes answer =
        encode(Answer::welcome, badge.key, Challenge(), decode_hello(said).value());
    ASSERT_TRUE(send_all(socket, answer, soon()).ok());
  }
  const Deadline end = Deadline::after(0.2);
  while (!end.expired()) rank->poll();
  EXPECT_TRUE(rank->peer_status(0).ok()) << rank->peer_status(0).to_string();
}

TEST(TcpFaults, RandomFramesDoNoHarm) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    std::mt19937_64 random(seed);
    World world(2, 1, 1);
    RawPeer peer(world[0]);
    RecvLink& in = world[0].open_recv(1, 1, {3, 192});
    world[0].open_send(1, 1, {2, 64});
    peer.connect(1, 0);
    for (int i = 0; i < 20; ++i) {
      Frame frame{static_cast<FrameKind>(random() % kFrameKinds),
                  static_cast<LinkId>(random() % 3 ? 1 : random()), 0,
                  random() % 3 ? random() % 5 : random(), random() % 3 ? 64 : random()};
      if (frame.kind == FrameKind::data || frame.kind == FrameKind::note)
        frame.length = static_cast<uint32_t>(random() % 3 ? random() % 200 : random());
      const std::vector<std::byte> payload(frame.length % 256, std::byte{1});
      peer.write_anyhow(encode(frame));
      peer.write_anyhow(payload);
      if (in.peek() && random() % 2) in.release();
      while (world[0].hear()) {
      }
    }
    peer.close();
    ASSERT_TRUE(world.until([&] { return !world[0].peer_status(1).ok(); })) << "seed " << seed;
  }
}

// ---- deaths

TEST(TcpFaults, WhatCameBeforeADeathCanBeRead) {
  World world(2, 1, 1);
  RawPeer peer(world[0]);
  RecvLink& in = world[0].open_recv(1, kLink, {4, 4096});
  peer.connect(1, 0);
  const auto first = pattern(4096, 1), second = pattern(100, 2);
  peer.write(Frame{FrameKind::data, kLink, 4096, 0, 10}, first);
  peer.write(Frame{FrameKind::data, kLink, 100, 1, 11}, second);
  peer.write(Frame{FrameKind::data, kLink, 4096, 2, 12}, ConstBytes(first).first(1000));
  peer.close();
  ASSERT_TRUE(world.until([&] { return !world[0].peer_status(1).ok(); }));
  for (const auto& [data, tag] : {std::pair(first, 10u), std::pair(second, 11u)}) {
    EXPECT_TRUE(in.status().ok()) << "there is something to be read";
    ASSERT_NE(in.peek(), nullptr);
    EXPECT_EQ(in.peek()->tag, tag);
    EXPECT_TRUE(conformance::same_bytes(in.peek()->data, data));
    in.release();
  }
  EXPECT_EQ(in.peek(), nullptr) << "half a message is none";
  EXPECT_EQ(in.status().code(), Code::peer_lost);
}

TEST(TcpFaults, ADeathWhileAMessageIsPlacedIsNoMessage) {
  World world(2, 1, 1);
  RawPeer peer(world[0]);
  RecvLink& in = world[0].open_recv(1, kLink, {2, 4096});
  peer.connect(1, 0);
  std::vector<std::byte> memory(4096);
  const std::optional<Ticket> ticket = in.post(memory);
  ASSERT_TRUE(ticket);
  peer.write(Frame{FrameKind::data, kLink, 4096, 0, 1}, ConstBytes(pattern(2000, 1)));
  peer.close();
  ASSERT_TRUE(world.until([&] { return !in.status().ok(); }));
  EXPECT_FALSE(in.done(*ticket));
  EXPECT_NE(in.status().message().find("rank 1"), std::string_view::npos);
}

}  // namespace
}  // namespace weft::tcp
