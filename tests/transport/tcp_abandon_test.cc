// Memory of the caller's that TCP has been given and must let go of; best run under ASan.
#include <poll.h>
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
constexpr LinkShape kShape{4, 4 << 20};

// Rank 0, with a link each way to a rank 1 that does nothing by itself.
struct Idle {
  static Times closing_after(double seconds) {
    Times times;
    times.close = seconds;
    return times;
  }
  explicit Idle(int streams = 1, double patience = 0.1)
      : world(2, streams, 1, closing_after(patience)), peer(world[0]) {
    const int small = 64 << 10;
    ::setsockopt(peer.fd(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    peer.connect(1, 0);
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(peer.read_frame());  // the two opens
    peer.write(Frame{FrameKind::open_recv, kLink, 0, kShape.slots, kShape.slot_bytes});
    EXPECT_TRUE(world.until([&] { return !out.reserve().empty(); }));
  }
  // Sends everything from memory that is gone afterwards; more than the sockets hold.
  void send_and_abandon() {
    std::vector<std::vector<std::byte>> memory;
    for (uint64_t i = 0; i < kShape.slots; ++i) {
      memory.push_back(pattern(kShape.slot_bytes, i));
      ASSERT_TRUE(out.send(memory.back(), i));
    }
    ASSERT_FALSE(out.done(kShape.slots)) << "the sockets took it all; nothing is tested";
    world[0].abandon();
    EXPECT_TRUE(out.done(kShape.slots));
    EXPECT_EQ(out.status().code(), Code::aborted);
  }
  void expect_messages(uint64_t from, uint64_t to) {
    for (uint64_t i = from; i < to; ++i) {
      const std::optional<Frame> frame = peer.read_frame();
      ASSERT_TRUE(frame);
      ASSERT_EQ(frame->kind, FrameKind::data);
      EXPECT_EQ(frame->sequence, i);
      std::vector<std::byte> data(frame->length);
      ASSERT_TRUE(peer.read(data));
      EXPECT_TRUE(conformance::same_bytes(data, pattern(kShape.slot_bytes, i))) << "message " << i;
    }
  }

  World world;
  RecvLink& in = world[0].open_recv(1, kLink, kShape);
  SendLink& out = world[0].open_send(1, kLink, kShape);
  RawPeer peer;
};

TEST(TcpAbandon, WhatWasSentFromMemoryStillArrivesWhole) {
  Idle ranks;
  ranks.send_and_abandon();
  ranks.world[0].tell(1, NoteKind::failure, "why");
  ranks.expect_messages(0, kShape.slots);
  const std::optional<Frame> note = ranks.peer.read_frame();
  ASSERT_TRUE(note);
  EXPECT_EQ(note->kind, FrameKind::note);
  EXPECT_TRUE(ranks.world[0].peer_status(1).ok());
}

// Notes that wait behind messages do not push each other out.
TEST(TcpAbandon, ANoteAlreadyQueuedLeavesRoomForTheNext) {
  Idle ranks;
  ranks.send_and_abandon();
  ranks.world[0].tell(1, NoteKind::call, "an earlier one");
  ranks.world[0].tell(1, NoteKind::failure, "why");
  ranks.expect_messages(0, kShape.slots);
  for (const std::string_view text : {"an earlier one", "why"}) {
    const std::optional<Frame> note = ranks.peer.read_frame();
    ASSERT_TRUE(note);
    std::string heard(note->length, ' ');
    ASSERT_TRUE(ranks.peer.read(std::as_writable_bytes(std::span(heard))));
    EXPECT_EQ(heard, text);
  }
}

// Its text is still needed.
TEST(TcpAbandon, ANoteThatHasNotLeftCannotHaveBeenHeard) {
  Idle ranks;
  ranks.send_and_abandon();
  ranks.world[0].tell(1, NoteKind::failure, "why");
  ranks.peer.write(Frame{FrameKind::heard, static_cast<LinkId>(NoteKind::failure), 0, 0, 0});
  EXPECT_TRUE(ranks.world.until([&] { return !ranks.world[0].peer_status(1).ok(); }));
  EXPECT_NE(ranks.world[0].peer_status(1).message().find("heard a note of kind 2, which was not"),
            std::string_view::npos)
      << ranks.world[0].peer_status(1).to_string();
}

TEST(TcpAbandon, ClosingFlushesNothingThatIsGone) {
  Idle ranks;
  ranks.send_and_abandon();
  ranks.world.close(0);
}

// Reads so many bytes, a piece every 10 ms; how many came.
size_t read_slowly(int fd, size_t bytes) {
  std::vector<std::byte> piece(256 << 10);
  size_t done = 0;
  while (done < bytes) {
    pollfd readable{fd, POLLIN, 0};
    if (::poll(&readable, 1, 5000) != 1) break;
    const ssize_t got = ::recv(fd, piece.data(), piece.size(), 0);
    if (got <= 0) break;
    done += static_cast<size_t>(got);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return done;
}

// It takes several times as long as closing waits for a peer that takes nothing.
TEST(TcpAbandon, ClosingWaitsForAPeerThatIsSlow) {
  Idle ranks(1, 0.5);
  ranks.send_and_abandon();
  std::thread closer([&] { ranks.world.close(0); });
  constexpr size_t kGoodbye = kFrameBytes;
  constexpr size_t kBytes = kShape.slots * (kFrameBytes + kShape.slot_bytes) + kGoodbye;
  EXPECT_EQ(read_slowly(ranks.peer.fd(), kBytes), kBytes);
  closer.join();
}

TEST(TcpAbandon, PostedMemoryIsNotWrittenAnyMore) {
  Idle ranks;
  const auto data = pattern(4096, 1);
  {
    std::vector<std::byte> begun(4096), waiting(4096);
    ASSERT_TRUE(ranks.in.post(begun));
    ASSERT_TRUE(ranks.in.post(waiting));
    ranks.peer.write(Frame{FrameKind::data, kLink, 4096, 0, 1}, ConstBytes(data).first(1000));
    ASSERT_TRUE(ranks.world.until([&] { return std::equal(&data[0], &data[1000], &begun[0]); }));
    ranks.world[0].abandon();
  }
  EXPECT_EQ(ranks.in.status().code(), Code::aborted);
  ranks.peer.write(ConstBytes(data).subspan(1000));
  for (uint64_t i = 1; i < 3; ++i)
    ranks.peer.write(Frame{FrameKind::data, kLink, 4096, i, 1}, data);
  ranks.peer.write(Frame{FrameKind::note, 0, 4, 0, 0}, std::as_bytes(std::span("more", 4)));
  ASSERT_TRUE(ranks.world.until([&] { return ranks.world[0].hear().has_value(); }));
  EXPECT_EQ(ranks.in.peek(), nullptr);
  EXPECT_FALSE(ranks.in.done(1));
  std::vector<std::byte> more(4096);
  EXPECT_FALSE(ranks.in.post(more));
  EXPECT_TRUE(ranks.world[0].peer_status(1).ok());
}

// Closing takes a while, in which messages still come.
TEST(TcpAbandon, ClosingWritesNoPostedMemory) {
  Idle ranks;
  std::vector<std::byte> memory(4096, std::byte{9});
  ASSERT_TRUE(ranks.in.post(memory));
  ASSERT_TRUE(ranks.out.send(memory, 1));
  ranks.peer.write(Frame{FrameKind::data, kLink, 4096, 0, 1}, pattern(4096, 1));
  ranks.world.close(0);
  EXPECT_EQ(std::count(memory.begin(), memory.end(), std::byte{9}), 4096);
}

}  // namespace
}  // namespace weft::tcp
