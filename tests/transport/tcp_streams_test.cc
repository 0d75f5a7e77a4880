// Several streams per pair, and when credits travel: seen by a peer that plays its part by hand.
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "tests/transport/conformance.h"
#include "tests/transport/tcp_world.h"

namespace weft::tcp {
namespace {

using conformance::pattern;

constexpr LinkId kLink = 3;

Frame data(uint64_t sequence, uint32_t length) {
  return {FrameKind::data, kLink, length, sequence, 100 + sequence};
}

// Rank 0 receives by a link, and rank 1 has two connections to it, by hand.
class TcpTwoStreams : public testing::Test {
 protected:
  void SetUp() override {
    one.connect(1, 0, 0, 2);
    two.connect(1, 0, 1, 2);
  }

  // A part of a message came by one stream, and all of the next one by the other.
  void lose_the_first_of_two() {
    one.write(data(0, 3000), pattern(1000, 0));
    two.write(data(1, 50), pattern(50, 1));
    for (int i = 0; i < 50; ++i) world[0].poll();
    EXPECT_TRUE(in.status().ok());
    hang_up();
    EXPECT_EQ(in.peek(), nullptr);
    EXPECT_EQ(in.status().code(), Code::peer_lost) << in.status().to_string();
  }
  void hang_up() {
    one.close();
    two.close();
    ASSERT_TRUE(world.until([&] { return !world[0].peer_status(1).ok(); }));
  }

  World world{2, 2, 1};
  RecvLink& in = world[0].open_recv(1, kLink, {4, 4096});
  RawPeer one{world[0]}, two{world[0]};
};

TEST_F(TcpTwoStreams, MessagesOfSeveralStreamsAreGivenInOrder) {
  const auto payload = pattern(3000, 1);
  two.write(data(1, 0));
  two.write(data(2, 3000), payload);
  for (int i = 0; i < 50; ++i) {
    world[0].poll();
    ASSERT_EQ(in.peek(), nullptr) << "the first has not come";
  }
  one.write(data(0, 3000), payload);
  one.write(data(3, 3000), payload);
  for (uint64_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(world.until([&] { return in.peek() != nullptr; }));
    EXPECT_EQ(in.peek()->tag, 100 + i);
    EXPECT_EQ(in.peek()->data.size(), i == 1 ? 0u : 3000u);
    in.release();
  }
}

TEST_F(TcpTwoStreams, PostedMessagesKeepTheOrder) {
  std::vector<std::byte> memory[2] = {std::vector<std::byte>(4096), std::vector<std::byte>(4096)};
  const std::optional<Ticket> first = in.post(memory[0]), second = in.post(memory[1]);
  ASSERT_TRUE(first && second);
  two.write(data(1, 50), pattern(50, 1));
  two.write(data(2, 60), pattern(60, 2));
  std::optional<RecvLink::Placed> placed;
  ASSERT_TRUE(world.until([&] { return (placed = in.done(*second)).has_value(); }));
  EXPECT_EQ(placed->tag, 101u);
  for (int i = 0; i < 20; ++i) ASSERT_EQ(in.peek(), nullptr) << "a posted one before it is missing";
  one.write(data(0, 70), pattern(70, 0));
  ASSERT_TRUE(world.until([&] { return in.peek() != nullptr; }));
  EXPECT_EQ(in.peek()->tag, 102u);
  EXPECT_TRUE(std::ranges::equal(in.peek()->data, pattern(60, 2)));
  in.release();
  ASSERT_TRUE((placed = in.done(*first)).has_value());
  EXPECT_EQ(placed->tag, 100u);
  EXPECT_EQ(placed->bytes, 70u);
  EXPECT_TRUE(std::equal(memory[0].begin(), memory[0].begin() + 70, pattern(70, 0).begin()));
  // The three were consumed in another order than they were sent; all credits come back.
  EXPECT_EQ(one.read_frame()->kind, FrameKind::open_recv);
  const std::optional<Frame> credit = one.read_frame();
  ASSERT_TRUE(credit);
  EXPECT_EQ(credit->kind, FrameKind::credit);
  EXPECT_EQ(credit->sequence, 3u);
}

// What has come by one stream behind what the other has lost can never be taken: who waits for it
// is told of the loss.
TEST_F(TcpTwoStreams, WhatIsBehindALostMessageHidesNoLoss) { lose_the_first_of_two(); }

TEST_F(TcpTwoStreams, WhatIsBehindALostMessageHidesNoLossOfAPostedOne) {
  std::vector<std::byte> memory(4096);
  ASSERT_TRUE(in.post(memory));
  lose_the_first_of_two();
}

// All that came whole in order is there yet.
TEST_F(TcpTwoStreams, WhatIsBeforeALostMessageIsStillTaken) {
  two.write(data(1, 50), pattern(50, 1));
  one.write(data(0, 70), pattern(70, 0));
  two.write(data(3, 50), pattern(50, 3));
  for (int i = 0; i < 50; ++i) world[0].poll();
  hang_up();
  for (uint64_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(in.status().ok()) << i;
    ASSERT_NE(in.peek(), nullptr) << i;
    EXPECT_EQ(in.peek()->tag, 100 + i);
    in.release();
  }
  EXPECT_EQ(in.peek(), nullptr);
  EXPECT_EQ(in.status().code(), Code::peer_lost);
}

TEST(TcpStreams, AGoodbyeOnOneStreamExplainsTheEndOfTheOther) {
  World world(2, 2, 1);
  world[0].open_recv(1, kLink, {4, 64});
  RawPeer one(world[0]), two(world[0]);
  one.connect(1, 0, 0, 2);
  two.connect(1, 0, 1, 2);
  one.write(Frame{FrameKind::bye, 0, 0, 2, 0});
  for (int i = 0; i < 20; ++i) world[0].poll();
  EXPECT_TRUE(world[0].peer_status(1).ok()) << "more may come over the other stream";
  two.close();
  ASSERT_TRUE(world.until([&] { return !world[0].peer_status(1).ok(); }));
  EXPECT_NE(world[0].peer_status(1).message().find("closed its communicator"),
            std::string_view::npos)
      << world[0].peer_status(1).to_string();
}

// The peer hangs up where it has read the goodbye, while the other stream is still full.
TEST(TcpStreams, WhoClosesSendsAllThoughThePeerHasClosedOneStream) {
  constexpr uint32_t kBytes = 16 << 20;
  World world(2, 2, 1);
  SendLink& out = world[0].open_send(1, kLink, {2, kBytes});
  RawPeer full(world[0]), idle(world[0]);
  full.connect(1, 0, 0, 2);
  idle.connect(1, 0, 1, 2);
  full.write(Frame{FrameKind::open_recv, kLink, 0, 2, kBytes});
  ASSERT_TRUE(world.until([&] { return !out.reserve().empty(); }));
  for (int i = 0; i < 50; ++i) world[0].poll();  // both streams are there
  out.commit(kBytes, 7);
  std::thread closing([&] { world.close(0); });
  const auto read_some = [deadline = soon()](const RawPeer& peer) {
    static std::byte sink[1 << 16];
    while (!deadline.expired()) {
      const ssize_t got = ::recv(peer.fd(), sink, sizeof sink, 0);
      if (got > 0) return static_cast<size_t>(got);
      if (got == 0 || errno != EAGAIN) break;
    }
    return size_t{0};
  };
  EXPECT_EQ(read_some(idle), kFrameBytes) << "its goodbye";
  idle.close();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  size_t bytes = 0;
  while (const size_t more = read_some(full)) bytes += more;
  EXPECT_EQ(bytes, kBytes + 3 * kFrameBytes) << "the link, the message, and the goodbye";
  closing.join();
}

// Messages leave over the stream that moves, not in turn over all.
TEST(TcpStreams, ASlowStreamIsAvoided) {
  constexpr uint32_t kBytes = 256 << 10;
  constexpr uint32_t kCount = 64;
  World world(2, 2, 1);
  SendLink& out = world[0].open_send(1, kLink, {kCount, kBytes});
  RawPeer slow(world[0]), fast(world[0]);
  for (RawPeer* peer : {&slow, &fast}) {
    const int small = 64 << 10;
    ::setsockopt(peer->fd(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
  }
  slow.connect(1, 0, 0, 2);
  fast.connect(1, 0, 1, 2);
  slow.write(Frame{FrameKind::open_recv, kLink, 0, kCount, kBytes});
  const std::vector<std::byte> memory(kBytes);
  uint32_t sent = 0;
  std::vector<std::byte> sink(1 << 20);
  const Deadline deadline = soon();
  size_t over_fast = 0;
  const auto move = [&] {
    world[0].poll();
    const ssize_t got = ::recv(fast.fd(), sink.data(), sink.size(), 0);
    if (got > 0) over_fast += static_cast<size_t>(got);
  };
  constexpr uint32_t kOverSlow = kCount / 4;  // at most; all others arrive, however long that takes
  while (sent < kCount && !deadline.expired()) {
    if (out.send(memory, sent)) ++sent;
    for (int i = 0; i < 50; ++i) move();
    while (sent > kOverSlow && over_fast < size_t{kBytes} * (sent - kOverSlow) &&
           !deadline.expired())
      move();
  }
  ASSERT_EQ(sent, kCount);
  EXPECT_GE(over_fast, size_t{kBytes} * (kCount - kOverSlow)) << "of " << kCount << " messages";
}

// How many credit frames come back for `count` messages that are all there before the first is
// released.
TEST(TcpStreams, CreditsTravelTogether) {
  constexpr uint32_t kSlots = 16;
  World world(2, 1, 1);
  RecvLink& in = world[0].open_recv(1, kLink, {kSlots, 64});
  RawPeer peer(world[0]);
  peer.connect(1, 0);
  ASSERT_EQ(peer.read_frame()->kind, FrameKind::open_recv);
  uint64_t sequence = 0;
  int credits = 0;
  for (uint64_t released = 0; released < 10 * kSlots;) {
    while (sequence < released + kSlots) peer.write(data(sequence++, 0));
    while (released < sequence - kSlots / 2) {
      ASSERT_TRUE(world.until([&] { return in.peek() != nullptr; }));
      in.release();
      ++released;
    }
    const std::optional<Frame> credit = peer.read_frame();
    ASSERT_TRUE(credit);
    EXPECT_EQ(credit->kind, FrameKind::credit);
    EXPECT_EQ(credit->sequence, released);
    ++credits;
  }
  EXPECT_LE(credits, 20);
}

// A sender without credits hears of a single release, although half of the slots are not released.
TEST(TcpStreams, AStarvingSenderIsFed) {
  World world(2, 1, 1);
  RecvLink& in = world[0].open_recv(1, kLink, {8, 64});
  RawPeer peer(world[0]);
  peer.connect(1, 0);
  ASSERT_EQ(peer.read_frame()->kind, FrameKind::open_recv);
  for (uint64_t i = 0; i < 8; ++i) peer.write(data(i, 0));
  ASSERT_TRUE(world.until([&] { return in.peek() != nullptr; }));
  in.release();
  const std::optional<Frame> credit = peer.read_frame();
  ASSERT_TRUE(credit);
  EXPECT_EQ(credit->kind, FrameKind::credit);
  EXPECT_EQ(credit->sequence, 1u);
}

// Credits ride with a message that goes the other way: no frame, and no call, of their own.
TEST(TcpStreams, CreditsRideWithMessages) {
  World world(2, 1, 1);
  RecvLink& in = world[0].open_recv(1, kLink, {8, 64});
  SendLink& out = world[0].open_send(1, kLink, {8, 64});
  RawPeer peer(world[0]);
  peer.connect(1, 0);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(peer.read_frame());  // the two opens
  peer.write(Frame{FrameKind::open_recv, kLink, 0, 8, 64});
  peer.write(data(0, 0));
  ASSERT_TRUE(world.until([&] { return in.peek() != nullptr && !out.reserve().empty(); }));
  in.release();
  for (int i = 0; i < 20; ++i) world[0].poll();
  out.commit(0, 1);
  EXPECT_EQ(peer.read_frame()->kind, FrameKind::credit);
  EXPECT_EQ(peer.read_frame()->kind, FrameKind::data);
}

}  // namespace
}  // namespace weft::tcp
