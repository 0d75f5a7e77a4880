#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>
#include <vector>

#include "base/socket.h"
#include "bootstrap/cpus.h"
#include "tests/transport/conformance.h"
#include "tests/transport/shm_world.h"
#include "transport/backends.h"
#include "transport/shm/address.h"
#include "transport/shm/bell.h"
#include "transport/shm/pair.h"
#include "transport/shm/ring.h"

namespace weft {
namespace {

using namespace shm::test;

conformance::Backend shm_backend() {
  conformance::Backend backend;
  backend.name = "shm";
  backend.world = [] { return conformance::Factory(make_shm); };
  backend.modes = {conformance::Mode::threads, conformance::Mode::processes};
  backend.traits = {.send_in_place = true};
  backend.windows = true;
  backend.shares = true;
  backend.reads = true;
  backend.delivers_after_close = true;
  return backend;
}

INSTANTIATE_TEST_SUITE_P(Shm, Conformance, testing::ValuesIn(conformance::cases(shm_backend())),
                         conformance::case_name);

TEST(ShmAddress, IsReadBack) {
  const shm::Address here = shm::Address::here("host name: \n odd", "weft-1-2");
  const std::optional<shm::Address> again = shm::Address::parse(here.to_string());
  ASSERT_TRUE(again);
  EXPECT_EQ(again->host, here.host);
  EXPECT_EQ(again->socket, here.socket);
  EXPECT_TRUE(again->same_place(here));
  for (const char* bad : {"", "shm1", "shm2 1 2 name host", "shm1 x 2 name host"})
    EXPECT_FALSE(shm::Address::parse(bad)) << bad;
}

TEST(ShmAddress, OnlyTheSameHostUserAndNetworkShareMemory) {
  const shm::Address here = shm::Address::here("host", "name");
  for (const int field : {0, 1, 2}) {
    shm::Address other = here;
    if (field == 0) other.host += "x";
    if (field == 1) ++other.network;
    if (field == 2) ++other.user;
    EXPECT_FALSE(here.same_place(other)) << field;
    const auto me = make(config(0));
    shm::Address placed = *shm::Address::parse(me->address());
    if (field == 0) placed.host += "x";
    if (field == 1) ++placed.network;
    if (field == 2) ++placed.user;
    EXPECT_TRUE(me->join({me->address(), placed.to_string()}).ok());
    EXPECT_FALSE(me->reaches(1)) << field;
  }
}

TEST(Shm, JoinNeedsAllAddresses) {
  const auto me = make(config(0));
  EXPECT_EQ(me->join({me->address()}).code(), Code::invalid_argument);
}

TEST(Shm, ShapesAreChecked) {
  const auto a = make(config(0)), b = make(config(1));
  join(*a, *b);
  for (const LinkShape shape : {LinkShape{0, 64}, {1, 0}, {1, 65}, {~0u, ~0u - 63}}) {
    const LinkId id = shape.slots ^ shape.slot_bytes;
    EXPECT_EQ(a->open_send(1, id, shape).status().code(), Code::invalid_argument);
    EXPECT_EQ(a->open_recv(1, id, shape).status().code(), Code::invalid_argument);
    EXPECT_TRUE(a->open_send(1, id, shape).reserve().empty());
    EXPECT_EQ(a->open_recv(1, id, shape).peek(), nullptr);
  }
  a->open_recv(1, 5, {1, 64});
  EXPECT_EQ(a->open_recv(1, 5, {2, 64}).status().code(), Code::mismatch);
}

TEST(Shm, WindowsOfDifferentSizesAreRefusedWithBothSizes) {
  TransportConfig small = config(1);
  small.window_bytes = 4096;
  const auto a = make(config(0)), b = make(small);
  join(*a, *b);
  a->open_window(1);
  ASSERT_TRUE(until([&] { return !a->peer_status(1).ok(); }, {a.get(), b.get()}));
  for (const char* part : {"65536", "4096", "rank 1"})
    EXPECT_NE(a->peer_status(1).message().find(part), std::string_view::npos)
        << a->peer_status(1).to_string();
}

TEST(Shm, FillsAWindowAsFarAsIsAsked) {
  constexpr size_t kPage = 4096, kPages = 256;
  TransportConfig large = config(0);
  large.window_bytes = kPages * kPage;
  const auto me = make(large);
  const Window& window = *me->open_window(0);
  const auto pages_there = [&] {
    std::vector<unsigned char> there(kPages);
    EXPECT_EQ(::mincore(window.memory, kPages * kPage, there.data()), 0);
    return std::count_if(there.begin(), there.end(), [](unsigned char page) { return page & 1; });
  };
  EXPECT_EQ(pages_there(), 0);
  window.memory[0] = std::byte{7};
  EXPECT_EQ(pages_there(), 1);
  me->fill_window(100 * kPage);
  EXPECT_EQ(window.memory[0], std::byte{7});
  if (pages_there() == 1) GTEST_SKIP() << "this kernel fills no memory ahead";
  EXPECT_EQ(pages_there(), 100);
  me->fill_window(2 * kPages * kPage);
  EXPECT_EQ(pages_there(), kPages);
}

TEST(Shm, RanksOfAnotherJobAreRefusedAndNamed) {
  const auto a = make(config(0, "one")), b = make(config(1, "other"));
  join(*a, *b);
  SendLink& link = a->open_send(1, 1, {1, 64});
  ASSERT_TRUE(until([&] { return !link.status().ok(); }, {a.get(), b.get()}));
  EXPECT_NE(link.status().message().find("other"), std::string_view::npos)
      << link.status().to_string();
  EXPECT_TRUE(b->peer_status(0).ok()) << "a stranger must not be taken for a rank";
}

// Both have connected before either polls; then the higher rank alone goes on for a while.
TEST(Shm, SimultaneousConnectionsBecomeOneWhoeverPollsFirst) {
  for (const int first : {0, 1}) {
    const auto a = make(config(0)), b = make(config(1));
    join(*a, *b);
    SendLink& out = a->open_send(1, 1, {1, 64});
    RecvLink& in = b->open_recv(0, 1, {1, 64});
    for (int i = 0; i < 200; ++i) (first == 0 ? a : b)->poll();
    ASSERT_TRUE(until([&] { return !out.reserve().empty(); }, {a.get(), b.get()}));
    out.commit(3, 4);
    ASSERT_TRUE(until([&] { return in.peek() != nullptr; }, {a.get(), b.get()}));
  }
}

TEST(Shm, WhoJoinsLateIsFoundAllTheSame) {
  const auto a = make(config(0)), b = make(config(1));
  const std::vector<std::string> addresses{a->address(), b->address()};
  EXPECT_TRUE(a->join(addresses).ok());
  SendLink& out = a->open_send(1, 1, {1, 64});
  for (int i = 0; i < 200; ++i) {
    a->poll();
    b->poll();
  }
  EXPECT_TRUE(b->join(addresses).ok());
  b->open_recv(0, 1, {1, 64});
  EXPECT_TRUE(until([&] { return !out.reserve().empty(); }, {a.get(), b.get()}));
  EXPECT_TRUE(a->peer_status(1).ok());
}

TEST(Shm, WhoClosesBeforeAnsweringIsLost) {
  const auto a = make(config(0));
  auto b = make(config(1));
  join(*a, *b);
  SendLink& link = a->open_send(1, 1, {1, 64});
  b.reset();
  ASSERT_TRUE(until([&] { return !link.status().ok(); }, {a.get()}));
  EXPECT_EQ(link.status().code(), Code::peer_lost);
}

TEST(Shm, AGoodbyeIsToldFromADeath) {
  const auto a = make(config(0));
  auto b = make(config(1));
  join(*a, *b);
  const Window* window = a->open_window(1);
  ASSERT_TRUE(until([&] { return window->memory != nullptr; }, {a.get(), b.get()}));
  b.reset();
  ASSERT_TRUE(until([&] { return !a->peer_status(1).ok(); }, {a.get()}));
  EXPECT_NE(a->peer_status(1).message().find("closed"), std::string_view::npos);
  window->memory[0] = std::byte{1};  // still mapped
}

// Two connected ranks and a link in each direction, driven by one thread.
struct Couple {
  std::unique_ptr<Transport> a = make(config(0));
  std::unique_ptr<Transport> b = make(config(1));
  SendLink* out = nullptr;
  RecvLink* in = nullptr;

  Couple() {
    join(*a, *b);
    out = &a->open_send(1, 1, {4, 128});
    in = &b->open_recv(0, 1, {4, 128});
    const Window* there = a->open_window(1);
    const Window* back = b->open_window(0);
    EXPECT_TRUE(until([&] { return !out->reserve().empty() && there->memory && back->memory; },
                      {a.get(), b.get()}));
  }
};

// A wait that was rung for does not sleep: once announced, the next call returns at once. Most of
// 50 rounds must, since the machine may be busy; a sleep is at least 1 ms.
void expect_rings(Transport& sleeper, const std::function<void()>& ring) {
  std::vector<int64_t> waits_ns;
  for (int round = 0; round < 50; ++round) {
    sleeper.wait(Deadline::after(10));
    sleeper.poll();
    ring();
    const int64_t begin = steady_clock().now_ns();
    sleeper.wait(Deadline::after(10));
    waits_ns.push_back(steady_clock().now_ns() - begin);
  }
  std::nth_element(waits_ns.begin(), waits_ns.begin() + 25, waits_ns.end());
  EXPECT_LT(waits_ns[25], 500'000);
}

TEST(Shm, EverythingThatMayBeWaitedForRings) {
  Couple ranks;
  const auto send = [&] {
    ASSERT_FALSE(ranks.out->reserve().empty());
    ranks.out->commit(1, 0);
  };
  const auto receive = [&] {
    ASSERT_TRUE(ranks.in->peek());
    ranks.in->release();
  };
  expect_rings(*ranks.b, [&] { send(), receive(); });
  expect_rings(*ranks.a, [&] { send(), receive(); });
  expect_rings(*ranks.b, [&] { ranks.a->wake(1); });
  expect_rings(*ranks.a, [&] { ranks.b->wake(0); });
  expect_rings(*ranks.a, [&] { ranks.a->wake_self(); });
  expect_rings(*ranks.b, [&] {
    ranks.b->hear();  // else the next one waits for that
    ranks.a->poll();
    ranks.a->tell(1, NoteKind::call, "note");
  });
}

TEST(Shm, APeerRunsAsItLastSaid) {
  Couple ranks;
  EXPECT_FALSE(ranks.a->running(1));
  ranks.b->set_running(true);
  EXPECT_TRUE(ranks.a->running(1));
  EXPECT_FALSE(ranks.b->running(0));
  ranks.b->set_running(false);
  EXPECT_FALSE(ranks.a->running(1));
}

TEST(Shm, APeerHasTheCpuThatItLastRanOn) {
  const std::vector<int> cpus = usable_cpus();
  Couple ranks;
  bind_to_cpu(cpus[0]);
  EXPECT_FALSE(ranks.a->shares_cpu(1)) << "neither has ever said";
  ranks.a->set_running(true);
  EXPECT_FALSE(ranks.a->shares_cpu(1)) << "it has never said";
  ranks.b->set_running(true);
  EXPECT_TRUE(ranks.a->shares_cpu(1));
  EXPECT_TRUE(ranks.b->shares_cpu(0));
  ranks.b->set_running(false);
  EXPECT_TRUE(ranks.a->shares_cpu(1));
  if (cpus.size() > 1) {
    bind_to_cpu(cpus[1]);
    ranks.b->set_running(true);
    EXPECT_FALSE(ranks.a->shares_cpu(1));
  }
  unbind_from_cpus();
}

TEST(Shm, WhatHasArrivedCountsBeforeTheLossOfItsSender) {
  Couple ranks;
  for (uint64_t tag = 0; tag < 2; ++tag) {
    ASSERT_FALSE(ranks.out->reserve().empty());
    ranks.out->commit(0, tag);
  }
  ranks.a.reset();
  ASSERT_TRUE(until([&] { return !ranks.b->peer_status(0).ok(); }, {ranks.b.get()}));
  for (uint64_t tag = 0; tag < 2; ++tag) {
    EXPECT_TRUE(ranks.in->status().ok());
    ASSERT_TRUE(ranks.in->peek());
    EXPECT_EQ(ranks.in->peek()->tag, tag);
    ranks.in->release();
  }
  EXPECT_EQ(ranks.in->status().code(), Code::peer_lost);
}

TEST(Shm, ClosingLeavesNoDescriptorBehind) {
  const auto open_fds = [] {
    const std::filesystem::directory_iterator list("/proc/self/fd");
    return std::distance(begin(list), end(list));
  };
  const auto before = open_fds();
  {
    const auto a = make(config(0)), b = make(config(1));
    join(*a, *b);
    for (LinkId id = 0; id < 10; ++id) {
      a->open_recv(1, id, {2, 64});
      SendLink& link = b->open_send(0, id, {2, 64});
      ASSERT_TRUE(until([&] { return !link.reserve().empty(); }, {a.get(), b.get()}));
    }
    EXPECT_LT(open_fds() - before, 12) << "descriptors of rings stay open";
    b->open_recv(0, 77, {2, 64});  // on its way while both close
  }
  EXPECT_EQ(open_fds(), before);
}

// A peer that speaks the protocol as far as the test wants, and then does not.
class BadPeer {
 public:
  explicit BadPeer(Transport& victim) {
    const std::optional<shm::Address> there = shm::Address::parse(victim.address());
    Result<Fd> socket = start_connect(SocketAddress::abstract_unix(there->socket));
    WEFT_CHECK(socket.ok());
    socket_ = socket.take();
    const std::vector<std::string> addresses{victim.address(),
                                             shm::Address::here(there->host, "nobody").to_string()};
    EXPECT_TRUE(victim.join(addresses).ok());
  }
  // A thread's transport sends its home as a pointer, which is now ours.
  ~BadPeer() {
    shm::Frame frame;
    while (::recv(socket_.get(), &frame, sizeof frame, MSG_DONTWAIT) == sizeof frame)
      delete reinterpret_cast<std::shared_ptr<shm::Segment>*>(frame.pointer);
  }
  BadPeer(const BadPeer&) = delete;
  BadPeer& operator=(const BadPeer&) = delete;

  void send(const void* data, size_t bytes) {
    EXPECT_EQ(::send(socket_.get(), data, bytes, MSG_NOSIGNAL), static_cast<ssize_t>(bytes));
  }
  void send(shm::FrameKind kind, std::string_view text = "", LinkShape shape = {}, LinkId id = 0) {
    shm::Frame frame;
    frame.kind = kind;
    frame.from = 1;
    frame.id = id;
    frame.shape = shape;
    frame.set_text(text);
    send(&frame, sizeof frame);
  }

 private:
  Fd socket_;
};

TEST(Shm, AConnectionThatEndsWithoutAGoodbyeIsADeath) {
  const auto me = make(config(0));
  {
    BadPeer peer(*me);
    peer.send(shm::FrameKind::hello, "job");
    peer.send(shm::FrameKind::note, "last words");
    ASSERT_TRUE(until([&] { return me->hear().has_value(); }, {me.get()}));
  }
  ASSERT_TRUE(until([&] { return !me->peer_status(1).ok(); }, {me.get()}));
  EXPECT_NE(me->peer_status(1).message().find("died"), std::string_view::npos);
}

TEST(Shm, StrangersAreIgnored) {
  const auto me = make(config(0));
  BadPeer garbage(*me);
  garbage.send("hello?", 6);
  for (int i = 0; i < 10; ++i) me->poll();
  EXPECT_TRUE(me->peer_status(1).ok());
}

TEST(Shm, MalformedFramesAreErrorsOfThePeer) {
  using shm::FrameKind;
  const std::vector<std::function<void(BadPeer&)>> misdeeds{
      [](BadPeer& peer) { peer.send("rubbish", 7); },
      [](BadPeer& peer) { peer.send(FrameKind::hello, "job"); },
      [](BadPeer& peer) { peer.send(static_cast<FrameKind>(99)); },
      [](BadPeer& peer) { peer.send(FrameKind::home); },
      [](BadPeer& peer) {
        peer.send(FrameKind::ring, "", {4, 64});
      },
      [](BadPeer& peer) {
        peer.send(FrameKind::ring, "", {~0u, ~0u});
      },
      [](BadPeer& peer) { peer.send(FrameKind::note, "of no kind", {}, kNoteKinds); },
      [](BadPeer& peer) {
        for (int i = 0; i < 2; ++i) peer.send(FrameKind::note, "before the last one was heard");
      },
      [](BadPeer& peer) { peer.send(FrameKind::heard); },
      [](BadPeer& peer) { peer.send(FrameKind::heard, "", {}, kNoteKinds); },
  };
  for (size_t i = 0; i < misdeeds.size(); ++i) {
    const auto me = make(config(0));
    BadPeer peer(*me);
    peer.send(FrameKind::hello, "job");
    peer.send(FrameKind::bad_shape);  // of a link that is not there: harmless
    peer.send(FrameKind::note, "good so far");
    ASSERT_TRUE(until([&] { return me->hear().has_value(); }, {me.get()})) << i;
    EXPECT_TRUE(me->peer_status(1).ok());
    misdeeds[i](peer);
    ASSERT_TRUE(until([&] { return !me->peer_status(1).ok(); }, {me.get()})) << i;
    EXPECT_EQ(me->peer_status(1).code(), Code::peer_lost);
    EXPECT_EQ(me->peer_status(1).peer(), 1);
    EXPECT_FALSE(me->open_send(1, 1, {1, 64}).status().ok());
  }
}

TEST(ShmRing, ALengthBeyondTheSlotIsSeen) {
  const LinkShape shape{2, 64};
  std::vector<shm::RingLine> memory(shm::ring_bytes(shape) / sizeof(shm::RingLine) + 1);
  auto* bytes = reinterpret_cast<std::byte*>(memory.data());
  shm::RingReader reader(bytes, shape);
  uint32_t length = 0;
  EXPECT_FALSE(reader.arrived(length));
  memory[1].stamp = uint64_t{1} << 32 | 65;  // after the credits comes line 0
  EXPECT_TRUE(reader.arrived(length));
  EXPECT_EQ(length, 65u);
}

TEST(ShmBell, RingsOnlyWhoAnnouncedAndEndsItsSleep) {
  using namespace std::chrono_literals;
  shm::Bell bell;
  bell.ring();
  EXPECT_FALSE(bell.announced());
  bell.announce();
  bell.ring();
  bell.sleep(10'000'000'000);  // rung already: returns at once

  const auto begin = std::chrono::steady_clock::now();
  bell.announce();
  std::thread ringer([&] {
    std::this_thread::sleep_for(30ms);
    bell.ring();
  });
  while (bell.announced() && std::chrono::steady_clock::now() - begin < 10s)
    bell.sleep(10'000'000'000);
  ringer.join();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
}

}  // namespace
}  // namespace weft
