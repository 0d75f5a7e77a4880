// Beyond one link: many ranks, windows, waiting, and the death of a peer.
#include <algorithm>
#include <chrono>
#include <thread>

#include "tests/transport/conformance.h"

namespace weft::conformance {
namespace {

TEST_P(Conformance, ReachesTheOthersButNotItself) {
  run(3, [](Member& me) {
    for (Rank peer = 0; peer < 3; ++peer) {
      EXPECT_EQ(me->reaches(peer), peer != me.rank());
      EXPECT_TRUE(me->peer_status(peer).ok());
    }
    EXPECT_EQ(me->name().empty(), false);
  });
}

TEST_P(Conformance, ARankWithoutTheTransportIsNotReached) {
  run(
      3,
      [](Member& me) {
        if (me.rank() == 1) return;
        EXPECT_FALSE(me->reaches(1));
        const Rank peer = 2 - me.rank();
        EXPECT_TRUE(me->reaches(peer));
        EXPECT_TRUE(greet(me, peer));
      },
      0b010);
}

// All ranks send to all others at once, `messages` each of seeded sizes.
void all_to_all(Member& me, LinkShape shape, uint64_t messages) {
  const auto size_of = [&](Rank from, Rank to, uint64_t i) {
    std::mt19937_64 random(static_cast<uint64_t>(from * 100 + to) * 1000 + i);
    return random() % 3 == 0 ? random() % 65 : random() % (shape.slot_bytes + 1);
  };
  const auto seed_of = [](Rank from, Rank to, uint64_t i) {
    return static_cast<uint64_t>(from * 100 + to) << 20 | i;
  };
  std::vector<uint64_t> sent(static_cast<size_t>(me.size())), received(sent);
  const auto step = [&] {
    bool all = true;
    for (Rank peer = 0; peer < me.size(); ++peer) {
      if (peer == me.rank()) continue;
      uint64_t& out_count = sent[static_cast<size_t>(peer)];
      uint64_t& in_count = received[static_cast<size_t>(peer)];
      SendLink& out = me->open_send(peer, kData, shape);
      RecvLink& in = me->open_recv(peer, kData, shape);
      if (const Bytes slot = out_count < messages ? out.reserve() : Bytes{}; !slot.empty()) {
        const auto data =
            pattern(size_of(me.rank(), peer, out_count), seed_of(me.rank(), peer, out_count));
        std::copy(data.begin(), data.end(), slot.begin());
        out.commit(data.size(), out_count++);
      }
      if (const Message* message = in.peek()) {
        EXPECT_EQ(message->tag, in_count) << "from rank " << peer;
        expect_pattern(message->data, size_of(peer, me.rank(), in_count),
                       seed_of(peer, me.rank(), in_count));
        ++in_count;
        in.release();
      }
      all = all && out_count == messages && in_count == messages;
    }
    return all;
  };
  me.until(step, "all messages of all ranks");
}

TEST_P(Conformance, AllToAll) {
  run(5, [](Member& me) { all_to_all(me, {3, 1024}, 100); });
}

TEST_P(Conformance, ManyRanks) {
  run(backend().many_ranks, [](Member& me) { all_to_all(me, {2, 256}, 10); });
}

TEST_P(Conformance, WindowsAreZeroAndOfTheRightSize) {
  if (!backend().windows) {
    run(2, [](Member& me) {
      EXPECT_FALSE(me->has_windows());
      EXPECT_EQ(me->open_window(1 - me.rank()), nullptr);
    });
    return;
  }
  run(3, [](Member& me) {
    EXPECT_TRUE(me->has_windows());
    for (Rank peer = 0; peer < 3; ++peer) {
      const Window* window = me->open_window(peer);
      ASSERT_NE(window, nullptr);
      EXPECT_EQ(me->open_window(peer), window);
      if (!me.until([&] { return window->memory != nullptr; }, "a window")) return;
      EXPECT_EQ(reinterpret_cast<uintptr_t>(window->memory) % 4096, 0u);
      for (size_t i = 0; i < kWindowBytes; ++i) ASSERT_EQ(window->memory[i], std::byte{0});
    }
    me.barrier();
  });
}

std::atomic_ref<uint64_t> flag(const Window& window, Rank writer) {
  return std::atomic_ref<uint64_t>(
      *reinterpret_cast<uint64_t*>(window.memory + static_cast<size_t>(writer) * 64));
}

// Every rank writes a block and then a flag into every window; the owner checks the block.
TEST_P(Conformance, WindowWritesAreSeenByTheOwner) {
  if (!backend().windows) GTEST_SKIP() << "not offered by this transport";
  run(4, [](Member& me) {
    constexpr size_t kBlock = 8192;
    const auto block = [&](const Window& window, Rank writer) {
      return window.memory + 4096 + static_cast<size_t>(writer) * kBlock;
    };
    for (uint64_t round = 1; round <= 20; ++round) {
      if (round % 3 == 2) me->fill_window(kWindowBytes);
      for (Rank peer = 0; peer < me.size(); ++peer) {
        const Window* window = me->open_window(peer);
        if (!me.until([&] { return window->memory != nullptr; }, "a window")) return;
        const auto data = pattern(kBlock, round * 16 + static_cast<uint64_t>(me.rank()));
        std::copy(data.begin(), data.end(), block(*window, me.rank()));
        flag(*window, me.rank()).store(round, std::memory_order_release);
        if (peer != me.rank()) me->wake(peer);
      }
      const Window* own = me->open_window(me.rank());
      for (Rank writer = 0; writer < me.size(); ++writer) {
        const auto there = [&] {
          return flag(*own, writer).load(std::memory_order_acquire) == round;
        };
        if (!me.until(there, "a flag in the window")) return;
        expect_pattern({block(*own, writer), kBlock}, kBlock,
                       round * 16 + static_cast<uint64_t>(writer));
      }
      if (!me.barrier()) return;
    }
  });
}

TEST_P(Conformance, WaitReturnsByItsDeadline) {
  run(2, [](Member& me) {
    const int64_t begin = me->clock().now_ns();
    const Deadline deadline = Deadline::after(0.03, me->clock());
    while (!deadline.expired()) me.wait(deadline);
    const double waited = static_cast<double>(me->clock().now_ns() - begin) * 1e-9;
    EXPECT_GE(waited, 0.03);
    EXPECT_LT(waited, 5.0);
    me.wait(Deadline::after(0));  // one that has expired
  });
}

TEST_P(Conformance, WaitEndsWhenAMessageComes) {
  run(2, [](Member& me) {
    const Rank peer = 1 - me.rank();
    const LinkShape shape{2, 64};
    if (!greet(me, peer)) return;
    for (uint64_t i = 0; i < 5; ++i) {
      if (me.rank() == 0) {
        me.linger(0.01);
        if (!send(me, me->open_send(1, kData, shape), {}, i)) return;
        if (!me.barrier()) return;
        continue;
      }
      RecvLink& link = me->open_recv(0, kData, shape);
      const int64_t begin = me->clock().now_ns();
      const Deadline deadline = Deadline::after(kPatience_s, me->clock());
      while (!link.peek() && !deadline.expired()) {
        me.wait(deadline);
        me->poll();
      }
      ASSERT_NE(link.peek(), nullptr);
      EXPECT_EQ(link.peek()->tag, i);
      link.release();
      EXPECT_LT(me->clock().now_ns() - begin, 5'000'000'000) << "the message did not end the wait";
      if (!me.barrier()) return;
    }
  });
}

TEST_P(Conformance, WakeSelfEndsAWait) {
  run(1, [](Member& me) {
    const auto begin = std::chrono::steady_clock::now();
    me->wake_self();  // just before the wait: not lost
    me->wait(Deadline::after(kPatience_s, me->clock()));
    if (me.test().mode != Mode::turns) {
      std::atomic<bool> woken = false;
      std::thread waker([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        woken = true;
        me->wake_self();
      });
      const Deadline deadline = Deadline::after(kPatience_s);
      while (!woken && !deadline.expired()) me->wait(deadline);
      waker.join();
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  });
}

// Polls until the loss of `peer` is known, and checks what is said about it.
void expect_loss(Member& me, Rank peer, SendLink& out, RecvLink& in) {
  const int64_t begin = me->clock().now_ns();
  const auto lost = [&] {
    return !me->peer_status(peer).ok() && !out.status().ok() && !in.status().ok();
  };
  if (!me.until(lost, "the loss of the peer to be noticed")) return;
  EXPECT_LT(me->clock().now_ns() - begin, 2'000'000'000);
  for (const Status& status : {me->peer_status(peer), out.status(), in.status()}) {
    EXPECT_EQ(status.code(), Code::peer_lost) << status.to_string();
    EXPECT_EQ(status.peer(), peer) << status.to_string();
    EXPECT_NE(status.message().find("rank " + std::to_string(peer)), std::string_view::npos)
        << status.to_string();
  }
  EXPECT_EQ(in.peek(), nullptr);
  out.reserve();  // whatever it gives, it does no harm
  me->wake(peer);
  me->tell(peer, NoteKind::failure, "are you there?");
  EXPECT_FALSE(me->open_send(peer, 77, {1, 64}).status().ok()) << "opened after the loss";
  EXPECT_FALSE(me->open_recv(peer, 77, {1, 64}).status().ok()) << "opened after the loss";
}

// Rank 1 of three goes; the others notice, name it, and still talk to each other.
void lose_a_peer(Member& me, bool cleanly) {
  for (Rank peer = 0; peer < 3; ++peer)
    if (peer != me.rank() && !greet(me, peer)) return;
  if (!me.barrier()) return;
  if (me.rank() == 1) return cleanly ? me.close() : me.die();
  expect_loss(me, 1, me->open_send(1, kData, {2, 64}), me->open_recv(1, kData, {2, 64}));
  const Rank other = 2 - me.rank();
  EXPECT_TRUE(me->peer_status(other).ok());
  EXPECT_TRUE(greet(me, other, 2));
}

TEST_P(Conformance, ADeathIsNoticedAndNamed) {
  run(3, [](Member& me) { lose_a_peer(me, false); });
}

TEST_P(Conformance, AClosedTransportIsNoticedAndNamed) {
  run(3, [](Member& me) { lose_a_peer(me, true); });
}

TEST_P(Conformance, ADeathEndsAWait) {
  run(2, [](Member& me) {
    if (!greet(me, 1 - me.rank()) || !me.barrier()) return;
    if (me.rank() == 1) return me.die();
    const int64_t begin = me->clock().now_ns();
    const Deadline deadline = Deadline::after(kPatience_s, me->clock());
    while (me->peer_status(1).ok() && !deadline.expired()) {
      me.wait(deadline);
      me->poll();
    }
    EXPECT_EQ(me->peer_status(1).code(), Code::peer_lost);
    EXPECT_LT(me->clock().now_ns() - begin, 2'000'000'000);
  });
}

// Rank 0 sends as much as fits, by several links, and goes at once. Rank 1 begins to read when its
// own words reach nobody any more; it is more than one read, and between two reads there are words
// of release for more than one link.
struct Left {
  static constexpr LinkShape kShape{4, 8192};
  static constexpr LinkId kLinks = 3;
  static std::vector<std::byte> message(uint64_t i, LinkId id) {
    return pattern(3000 + 500 * i, 10 * i + id);
  }
  // Links and numbers of their messages, two by two.
  static std::vector<std::pair<LinkId, uint64_t>> order() {
    std::vector<std::pair<LinkId, uint64_t>> all;
    for (uint64_t i = 0; i < kShape.slots; i += 2)
      for (LinkId id = 0; id < kLinks; ++id)
        for (const uint64_t more : {0, 1}) all.emplace_back(id, i + more);
    return all;
  }
};

void leave_messages(Member& me, bool cleanly) {
  std::vector<SendLink*> links;
  for (LinkId id = 0; id < Left::kLinks; ++id)
    links.push_back(&me->open_send(1, kData + id, Left::kShape));
  const auto all = [&](const std::function<bool(SendLink&)>& is) {
    return std::all_of(links.begin(), links.end(), [&](SendLink* link) { return is(*link); });
  };
  const auto have_credit = [](SendLink& link) { return !link.reserve().empty(); };
  if (!me.until([&] { return all(have_credit); }, "credits")) return;
  me.word(0) = 1;
  for (const auto& [id, i] : Left::order())
    if (!send(me, *links[id], Left::message(i, id), i)) return;
  const auto flushed = [](SendLink& link) { return link.flushed(); };
  if (!me.until([&] { return all(flushed); }, "the messages to be on their way")) return;
  me.word(0) = 2;
  cleanly ? me.close() : me.die();
  me.word(0) = 3;
}

void read_what_was_left(Member& me) {
  std::vector<RecvLink*> links;
  for (LinkId id = 0; id < Left::kLinks; ++id)
    links.push_back(&me->open_recv(0, kData + id, Left::kShape));
  if (!me.until([&] { return me.word(0) != 0; }, "the other to have credits")) return;
  if (!me.until_idle([&] { return me.word(0) >= 2; }, "the other to go")) return;
  const Deadline dead = Deadline::after(0.2);  // it says no more than that
  me.until_idle([&] { return me.word(0) == 3 || dead.expired(); }, "the other to be gone");
  for (const auto& [id, i] : Left::order()) {
    const std::optional<Letter> letter = receive(me, *links[id]);
    ASSERT_TRUE(letter) << "message " << i << " of link " << id;
    EXPECT_EQ(letter->tag, i);
    EXPECT_TRUE(same_bytes(letter->data, Left::message(i, id))) << i << " of link " << id;
    if (i == 2) me.linger(0.02);  // the loss becomes known while messages wait
  }
  for (RecvLink* const link : links)
    me.until([&] { return !link->status().ok(); }, "the end of the peer");
}

TEST_P(Conformance, WhatWasSentBeforeClosingStillArrives) {
  if (!backend().delivers_after_close) GTEST_SKIP() << "not promised by this transport";
  run(2, [](Member& me) { me.rank() == 0 ? leave_messages(me, true) : read_what_was_left(me); });
}

TEST_P(Conformance, WhatWasSentBeforeDyingStillArrives) {
  if (!backend().delivers_after_close || backend().loses_at_death)
    GTEST_SKIP() << "not promised by this transport";
  run(2, [](Member& me) { me.rank() == 0 ? leave_messages(me, false) : read_what_was_left(me); });
}

// What rank 0 has given up: it sent from memory and posted memory, and then abandoned. The memory
// says 0xee from then on, and nobody may see that or write there.
struct Abandoned {
  static constexpr LinkShape kShape{4, 1 << 20};
  std::vector<std::vector<std::byte>> sent, posted;

  void send_and_post(Member& me, SendLink& out, RecvLink& in) {
    for (uint64_t i = 0; out.traits().send_from_memory && i < kShape.slots; ++i) {
      sent.push_back(pattern(kShape.slot_bytes, i));
      EXPECT_TRUE(out.send(sent.back(), i)) << "rank " << me.rank() << " had credits";
    }
    for (int i = 0; in.traits().recv_into_memory && i < 2; ++i) {
      posted.emplace_back(kShape.slot_bytes);
      if (!in.post(posted.back())) posted.pop_back();
    }
  }
  void reuse() {
    for (auto* all : {&sent, &posted})
      for (auto& memory : *all) std::fill(memory.begin(), memory.end(), std::byte{0xee});
  }
  void expect_untouched() const {
    for (const auto& memory : posted)
      EXPECT_EQ(std::count(memory.begin(), memory.end(), std::byte{0xee}), kShape.slot_bytes);
  }
};

void abandon(Member& me, SendLink& out, RecvLink& in) {
  Abandoned memory;
  memory.send_and_post(me, out, in);
  me->abandon();
  memory.reuse();
  for (Ticket ticket = 1; out.status().ok() && ticket <= memory.sent.size(); ++ticket)
    EXPECT_TRUE(out.done(ticket)) << "something was not sent, and the link does not say so";
  if (!out.status().ok()) {
    EXPECT_TRUE(out.reserve().empty());
    EXPECT_FALSE(out.send({}, 1));
  }
  EXPECT_EQ(in.status().ok(), memory.posted.empty()) << in.status().to_string();
  me->tell(1, NoteKind::failure, "abandoned");
  me.word(0) = 1;
  if (!me.until([&] { return me.word(1) == 1; }, "the other's messages")) return;
  me.linger(0.03);
  memory.expect_untouched();
  EXPECT_TRUE(memory.posted.empty() || !in.peek());
  me->abandon();  // once more does no harm
}

// Whole messages, and then a note or the loss of rank 0.
void be_abandoned(Member& me, SendLink& out, RecvLink& in) {
  if (!me.until([&] { return me.word(0) == 1; }, "the other to abandon")) return;
  uint64_t next = 0;
  const auto look = [&] {
    for (const Message* message = in.peek(); message; message = in.peek()) {
      EXPECT_EQ(message->tag, next);
      expect_pattern(message->data, Abandoned::kShape.slot_bytes, next++);
      in.release();
    }
    if (const Bytes slot = out.reserve(); !slot.empty()) {
      std::fill(slot.begin(), slot.end(), std::byte{7});
      out.commit(slot.size(), 1);
    }
    const std::optional<Note> note = me->hear();
    EXPECT_EQ(note ? note->text : "abandoned", "abandoned");
    return note || !me->peer_status(0).ok();
  };
  if (!me.until(look, "a note, or the loss of rank 0")) return;
  me.until([&] { return look(), out.flushed() || !out.status().ok(); }, "the messages to go");
  me.word(1) = 1;
}

TEST_P(Conformance, AbandonLetsGoOfTheCallersMemory) {
  run(2, [](Member& me) {
    SendLink& out = me->open_send(1 - me.rank(), kData, Abandoned::kShape);
    RecvLink& in = me->open_recv(1 - me.rank(), kData, Abandoned::kShape);
    if (!me.until([&] { return !out.reserve().empty(); }, "a credit") || !me.barrier()) return;
    return me.rank() == 0 ? abandon(me, out, in) : be_abandoned(me, out, in);
  });
}

TEST_P(Conformance, AbandonLeavesIdleLinksAlone) {
  run(2, [](Member& me) {
    if (!greet(me, 1 - me.rank()) || !me.barrier()) return;
    me->abandon();
    EXPECT_TRUE(greet(me, 1 - me.rank()));
  });
}

TEST_P(Conformance, BothMayOpenAtTheSameMoment) {
  for (int round = 0; round < 20; ++round) {
    run(3, [](Member& me) {
      if (!me.barrier()) return;
      for (Rank peer = 0; peer < 3; ++peer)
        if (peer != me.rank() && !greet(me, peer)) return;
      for (Rank peer = 0; peer < 3; ++peer) EXPECT_TRUE(me->peer_status(peer).ok());
    });
  }
}

// Ranks come and go without having used anything, or with links that the other never opened.
TEST_P(Conformance, ClosingWithOpenEndsDoesNotHang) {
  for (int round = 0; round < 3; ++round) {
    run(4, [](Member& me) {
      for (Rank peer = 0; peer < 4; ++peer)
        if (peer != me.rank() && (peer + me.rank()) % 2) me->open_send(peer, 9, {2, 64});
      me.linger(0.001 * me.rank());
      me.close();
    });
  }
}

}  // namespace
}  // namespace weft::conformance
