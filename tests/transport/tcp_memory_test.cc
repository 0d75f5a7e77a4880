// What becomes of a rank that has no memory left: an error that says so, and connections that go
// on.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "tests/support/sanitized.h"
#include "tests/transport/conformance.h"
#include "tests/transport/tcp_world.h"

namespace weft::tcp {
namespace {

using conformance::pattern;

constexpr LinkShape kHuge{2, 1 << 30};  // more than the process may have
constexpr size_t kBytes = 100'000;      // several reads

constexpr size_t kLittle = 160 << 20;
constexpr size_t kMoreThanHalf = 100 << 20;  // nor has malloc so much left: 64 MiB for a thread

// No more than the process has, and a little.
void take_memory_away() {
  std::ifstream sizes("/proc/self/statm");
  rlim_t pages = 0;
  sizes >> pages;
  const rlimit some{pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + kLittle, RLIM_INFINITY};
  ::setrlimit(RLIMIT_AS, &some);
}

// In a process of its own, whose limits nobody else has.
void without_memory(const std::function<void()>& body) {
  if (test::kSanitized) GTEST_SKIP() << "sanitizers need all the address space there is";
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    take_memory_away();
    [&]() noexcept { body(); }();
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

void expect_shortage_of(const Status& status, Rank rank) {
  EXPECT_EQ(status.code(), Code::system) << status.to_string();
  EXPECT_EQ(status.peer(), rank) << status.to_string();
  EXPECT_TRUE(status.message().starts_with("Cannot allocate memory for a message of link 3 with "))
      << status.to_string();
}

TEST(TcpMemory, WhoCannotBufferAMessageSaysSo) {
  without_memory([] {
    World world(2);
    world.expect_talk(0, 1);
    SendLink& out = world[0].open_send(1, 3, kHuge);
    world[1].open_recv(0, 3, kHuge);
    EXPECT_TRUE(world.until([&] { return out.reserve().empty() && !out.status().ok(); }));
    expect_shortage_of(out.status(), 0);
    EXPECT_TRUE(world[0].peer_status(1).ok());
    world.expect_talk(0, 1, 4712);
  });
}

TEST(TcpMemory, WhoCannotTakeAMessageSaysSoAndTakesTheNextOnes) {
  without_memory([] {
    World world(2);
    SendLink& out = world[0].open_send(1, 3, kHuge);
    RecvLink& in = world[1].open_recv(0, 3, kHuge);
    const std::vector<std::byte> message = pattern(kBytes, 1);
    for (int i = 0; i < 2; ++i)
      EXPECT_TRUE(world.until([&] { return out.send(message, 7).has_value(); }));
    EXPECT_TRUE(world.until([&] { return !in.status().ok(); }));
    expect_shortage_of(in.status(), 1);
    EXPECT_EQ(in.peek(), nullptr);
    world.expect_talk(0, 1);
    world.expect_talk(1, 0);
    EXPECT_TRUE(world.until([&] { return out.flushed(); }));
    EXPECT_TRUE(out.status().ok());
  });
}

// As for a message to posted memory that is let go of.
TEST(TcpMemory, WhatWasPostedIsLetGoOfWithoutASlot) {
  without_memory([] {
    World world(2, 1, 0);
    RecvLink& in = world[1].open_recv(0, 3, kHuge);
    RawPeer peer(world[1]);
    peer.connect(0, 1);
    EXPECT_TRUE(peer.read_frame());
    peer.write(Frame{FrameKind::open_send, 3, 0, kHuge.slots, kHuge.slot_bytes});
    std::vector<std::byte> posted(kBytes), none(kBytes);
    EXPECT_TRUE(in.post(posted));
    const std::vector<std::byte> message = pattern(kBytes, 1);
    peer.write(Frame{FrameKind::data, 3, kBytes, 0, 7}, ConstBytes(message).first(kBytes / 2));
    EXPECT_TRUE(world.until([&] { return posted[kBytes / 2 - 1] == message[kBytes / 2 - 1]; }));
    world[1].abandon();
    posted = none;
    peer.write(ConstBytes(message).last(kBytes / 2));
    const std::string_view text = "it goes on";
    peer.write(Frame{FrameKind::note, 0, static_cast<uint32_t>(text.size()), 0, 0},
               std::as_bytes(std::span(text)));
    std::optional<Note> note;
    EXPECT_TRUE(world.until([&] { return (note = world[1].hear()).has_value(); }));
    EXPECT_EQ(note->text, text);
    EXPECT_EQ(posted, none) << "it was written after it had been let go of";
  });
}

// What a peer that does not read has not taken yet is copied, or the connection ends.
TEST(TcpMemory, WhatIsOnItsWayIsLetGoOfWithoutACopy) {
  without_memory([] {
    World world(2, 1, 1);
    SendLink& out = world[0].open_send(1, 3, kHuge);
    RawPeer peer(world[0]);
    peer.connect(1, 0);
    EXPECT_TRUE(peer.read_frame());
    peer.write(Frame{FrameKind::open_recv, 3, 0, kHuge.slots, kHuge.slot_bytes});
    std::vector<std::byte> memory(kMoreThanHalf);
    EXPECT_TRUE(world.until([&] { return out.send(memory, 7).has_value(); }));
    world[0].abandon();
    const Status& status = world[0].peer_status(1);
    EXPECT_EQ(status.code(), Code::system);
    EXPECT_EQ(status.peer(), 0);
    EXPECT_TRUE(status.message().starts_with("Cannot allocate memory for what is on its way to"))
        << status.to_string();
  });
}

}  // namespace
}  // namespace weft::tcp
