// Links: order, credits, sizes, opening, and transfers from and into the caller's memory.
#include <algorithm>

#include "tests/transport/conformance.h"

namespace weft::conformance {
namespace {

// `count` messages of seeded sizes, from rank 0 to rank 1, each checked by content and tag.
void stream(Member& me, LinkShape shape, LinkId id, int count, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (int i = 0; i < count; ++i) {
    const size_t bytes = random() % (shape.slot_bytes + 1);
    const uint64_t content = seed + static_cast<uint64_t>(i);
    const uint64_t tag = random();
    if (me.rank() == 0) {
      if (!send(me, me->open_send(1, id, shape), pattern(bytes, content), tag)) return;
      continue;
    }
    const std::optional<Letter> letter = receive(me, me->open_recv(0, id, shape));
    if (!letter) return;
    ASSERT_EQ(letter->tag, tag) << "message " << i;
    ASSERT_NO_FATAL_FAILURE(expect_pattern(letter->data, bytes, content));
  }
}

TEST_P(Conformance, LinksSayWhatTheyCanDo) {
  run(2, [](Member& me) {
    const Rank peer = 1 - me.rank();
    const LinkShape shape{3, 192};
    const SendLink& out = me->open_send(peer, kData, shape);
    const RecvLink& in = me->open_recv(peer, kData, shape);
    const LinkTraits& want = me.test().backend.traits;
    EXPECT_EQ(out.traits().send_in_place, want.send_in_place);
    EXPECT_EQ(out.traits().send_from_memory, want.send_from_memory);
    EXPECT_EQ(in.traits().recv_into_memory, want.recv_into_memory);
    EXPECT_EQ(out.shape(), shape);
    EXPECT_EQ(in.shape(), shape);
  });
}

TEST_P(Conformance, MessagesArriveInOrder) {
  run(2, [](Member& me) { stream(me, {4, 256}, kData, 2000, 11); });
}

TEST_P(Conformance, SlotsWrapAroundManyTimes) {
  run(2, [](Member& me) {
    LinkId id = 0;
    for (const uint32_t slots : {1u, 2u, 3u, 7u, 64u})
      stream(me, {slots, 128}, id++, static_cast<int>(slots) * 20 + 100, 100 * slots);
  });
}

// Messages that are short beside their slot, in runs, and others.
TEST_P(Conformance, ShortAndLongMessagesShareLargeSlots) {
  run(2, [](Member& me) {
    for (const uint32_t slots : {1u, 4u}) {
      const LinkShape shape{slots, 64 << 10};
      std::minstd_rand random(slots);
      for (uint64_t i = 0; i < 500; ++i) {
        const bool is_long = i / 50 % 2 == 0 && random() % 2 == 0;
        const size_t bytes = random() % (is_long ? shape.slot_bytes + 1 : 5000);
        if (me.rank() == 0) {
          if (!send(me, me->open_send(1, slots, shape), pattern(bytes, i), i)) return;
          continue;
        }
        const std::optional<Letter> letter = receive(me, me->open_recv(0, slots, shape));
        if (!letter) return;
        ASSERT_EQ(letter->tag, i);
        ASSERT_NO_FATAL_FAILURE(expect_pattern(letter->data, bytes, i));
      }
    }
  });
}

TEST_P(Conformance, EverySizeAroundCacheLinesAndSlots) {
  run(2, [](Member& me) {
    LinkId id = 0;
    for (const uint32_t slot : {64u, 128u, 4096u, 65536u}) {
      const LinkShape shape{2, slot};
      ++id;
      std::vector<size_t> sizes{0, 1, 2, 7, 8, 23, 24, 25, 31, 32, 33, 47, 48, 49, slot - 1, slot};
      for (size_t bytes = 38; bytes <= 66; ++bytes) sizes.push_back(bytes);
      for (const size_t bytes : sizes) {
        if (bytes > slot) continue;
        if (me.rank() == 0) {
          if (!send(me, me->open_send(1, id, shape), pattern(bytes, bytes), ~bytes)) return;
          continue;
        }
        const std::optional<Letter> letter = receive(me, me->open_recv(0, id, shape));
        if (!letter) return;
        ASSERT_EQ(letter->tag, ~bytes);
        ASSERT_NO_FATAL_FAILURE(expect_pattern(letter->data, bytes, bytes));
      }
    }
  });
}

TEST_P(Conformance, TagsAreSixtyFourBits) {
  run(2, [](Member& me) {
    const LinkShape shape{2, 64};
    for (const uint64_t tag : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}, uint64_t{1} << 63}) {
      if (me.rank() == 0) {
        if (!send(me, me->open_send(1, kData, shape), {}, tag)) return;
        continue;
      }
      const std::optional<Letter> letter = receive(me, me->open_recv(0, kData, shape));
      if (!letter) return;
      EXPECT_EQ(letter->tag, tag);
      EXPECT_TRUE(letter->data.empty());
    }
  });
}

TEST_P(Conformance, ReserveAndPeekAreRepeatable) {
  run(2, [](Member& me) {
    const LinkShape shape{2, 256};
    if (me.rank() == 0) {
      SendLink& link = me->open_send(1, kData, shape);
      if (!me.until([&] { return !link.reserve().empty(); }, "a credit")) return;
      const Bytes slot = link.reserve();
      std::fill(slot.begin(), slot.end(), std::byte{7});
      me.linger(0.005);
      EXPECT_EQ(link.reserve().data(), slot.data());
      EXPECT_EQ(link.reserve().size(), shape.slot_bytes);
      link.commit(200, 1);
      send(me, link, pattern(20, 2), 2);
      return;
    }
    RecvLink& link = me->open_recv(0, kData, shape);
    if (!me.until([&] { return link.peek() != nullptr; }, "a message")) return;
    const std::byte* const data = link.peek()->data.data();
    me.linger(0.005);
    ASSERT_NE(link.peek(), nullptr);
    EXPECT_EQ(link.peek()->tag, 1u);
    EXPECT_EQ(link.peek()->data.data(), data);
    EXPECT_EQ(link.peek()->data.size(), 200u);
    for (const std::byte b : link.peek()->data) ASSERT_EQ(b, std::byte{7});
    link.release();
    const std::optional<Letter> second = receive(me, link);
    ASSERT_TRUE(second);
    expect_pattern(second->data, 20, 2);
  });
}

// The sender of CreditsAreExact: as many messages as there are slots, and not one more.
void spend_credits(Member& me, SendLink& link) {
  const uint32_t slots = link.shape().slots;
  for (uint32_t i = 0; i < slots; ++i)
    if (!send(me, link, pattern(100, i), i)) return;
  me.linger(0.02);
  EXPECT_TRUE(link.reserve().empty()) << "more messages under way than slots";
  for (uint32_t released = 1; released <= slots; ++released) {
    me.word(0) = released;
    if (!me.until([&] { return !link.reserve().empty(); }, "the credit given back")) return;
    link.commit(0, slots + released);
    me.linger(0.002);
    EXPECT_TRUE(link.reserve().empty()) << "one release gave more than one credit";
  }
  me.word(0) = slots + 1;
}

TEST_P(Conformance, CreditsAreExact) {
  run(2, [](Member& me) {
    const LinkShape shape{5, 128};
    if (me.rank() == 0) return spend_credits(me, me->open_send(1, kData, shape));
    RecvLink& link = me->open_recv(0, kData, shape);
    for (uint32_t i = 0; i < 2 * shape.slots; ++i) {
      const uint64_t allowed = i + 1;
      const auto may = [&] { return me.word(0) >= std::min<uint64_t>(allowed, shape.slots + 1); };
      if (!me.until(may, "the sender to have used its credits")) return;
      const std::optional<Letter> letter = receive(me, link);
      ASSERT_TRUE(letter);
      EXPECT_EQ(letter->tag, i < shape.slots ? i : i + 1);
    }
    me.linger(0.002);
    EXPECT_EQ(link.peek(), nullptr);
  });
}

TEST_P(Conformance, ManyLinksInBothDirections) {
  run(2, [](Member& me) {
    constexpr LinkId kLinks = 5;
    constexpr uint64_t kMessages = 60;
    const Rank peer = 1 - me.rank();
    const auto shape = [](LinkId id) { return LinkShape{id + 1, 64 * (id + 1)}; };
    const auto seed = [](Rank from, LinkId id, uint64_t i) {
      return static_cast<uint64_t>(from) * 100000 + id * 1000 + i;
    };
    std::vector<uint64_t> sent(kLinks), received(kLinks);
    const auto step = [&] {
      bool all = true;
      for (LinkId id = 0; id < kLinks; ++id) {
        SendLink& out = me->open_send(peer, id, shape(id));
        RecvLink& in = me->open_recv(peer, id, shape(id));
        if (sent[id] < kMessages && !out.reserve().empty()) {
          const auto data =
              pattern(sent[id] % (out.shape().slot_bytes + 1), seed(me.rank(), id, sent[id]));
          std::copy(data.begin(), data.end(), out.reserve().begin());
          out.commit(data.size(), sent[id]++);
        }
        if (const Message* message = in.peek()) {
          EXPECT_EQ(message->tag, received[id]);
          expect_pattern(message->data, received[id] % (in.shape().slot_bytes + 1),
                         seed(peer, id, received[id]));
          ++received[id];
          in.release();
        }
        all = all && sent[id] == kMessages && received[id] == kMessages;
      }
      return all;
    };
    me.until(step, "all messages of all links");
  });
}

TEST_P(Conformance, OneEndMayOpenLongBeforeTheOther) {
  for (const Rank early : {0, 1}) {
    for (const bool early_sends : {true, false}) {
      run(2, [&](Member& me) {
        const Rank peer = 1 - me.rank();
        const LinkShape shape{2, 128};
        const bool sends = (me.rank() == early) == early_sends;
        if (me.rank() != early) {
          if (!me.until([&] { return me.word(0) == 1; }, "the other end to open")) return;
          me.linger(0.03);
        }
        if (sends) {
          SendLink& link = me->open_send(peer, kData, shape);
          me.word(0) = 1;
          for (uint64_t i = 0; i < 10; ++i)
            if (!send(me, link, pattern(i * 12, i), i)) return;
          return;
        }
        RecvLink& link = me->open_recv(peer, kData, shape);
        me.word(0) = 1;
        for (uint64_t i = 0; i < 10; ++i) {
          const std::optional<Letter> letter = receive(me, link);
          if (!letter) return;
          expect_pattern(letter->data, i * 12, i);
        }
      });
    }
  }
}

TEST_P(Conformance, OpeningAgainGivesTheSameEnd) {
  run(2, [](Member& me) {
    const Rank peer = 1 - me.rank();
    const LinkShape shape{2, 64};
    SendLink* const out = &me->open_send(peer, kData, shape);
    RecvLink* const in = &me->open_recv(peer, kData, shape);
    for (LinkId id = 50; id < 60; ++id) me->open_send(peer, id, shape);
    me.linger(0.005);
    EXPECT_EQ(&me->open_send(peer, kData, shape), out);
    EXPECT_EQ(&me->open_recv(peer, kData, shape), in);
  });
}

TEST_P(Conformance, OpeningAgainWithAnotherShapeIsAnError) {
  run(2, [](Member& me) {
    const Rank peer = 1 - me.rank();
    const LinkShape first{7, 192}, second{13, 320};
    SendLink& out = me->open_send(peer, kData, first);
    RecvLink& in = me->open_recv(peer, kData, first);
    EXPECT_EQ(&me->open_send(peer, kData, second), &out);
    EXPECT_EQ(&me->open_recv(peer, kData, second), &in);
    EXPECT_EQ(out.shape(), first);
    for (const Status& status : {out.status(), in.status()}) {
      EXPECT_EQ(status.code(), Code::mismatch) << status.to_string();
      for (const char* part : {"7", "192", "13", "320"})
        EXPECT_NE(status.message().find(part), std::string_view::npos)
            << "'" << part << "' is not in: " << status.message();
    }
    me.linger(0.005);
    EXPECT_TRUE(out.reserve().empty());
    EXPECT_EQ(in.peek(), nullptr);
    EXPECT_TRUE(me->peer_status(peer).ok()) << "one bad link must not take the peer down";
  });
}

TEST_P(Conformance, DifferentShapesOnTheTwoEndsAreAnError) {
  run(2, [](Member& me) {
    const bool sends = me.rank() == 0;
    const auto status = [&]() -> const Status& {
      return sends ? me->open_send(1, kData, {7, 192}).status()
                   : me->open_recv(0, kData, {13, 320}).status();
    };
    if (!me.until([&] { return !status().ok(); }, "the mismatch to be found")) return;
    EXPECT_EQ(status().code(), Code::mismatch) << status().to_string();
    for (const char* part : {"7", "192", "13", "320"})
      EXPECT_NE(status().message().find(part), std::string_view::npos)
          << "'" << part << "' is not in: " << status().message();
    EXPECT_TRUE(me->peer_status(1 - me.rank()).ok()) << "one bad link must not take the peer down";
  });
}

TEST_P(Conformance, SendsFromMemory) {
  if (!backend().traits.send_from_memory) GTEST_SKIP() << "not offered by this transport";
  run(2, [](Member& me) {
    const LinkShape shape{3, 8192};
    constexpr uint64_t kMessages = 50;
    const auto size = [](uint64_t i) { return i * 163 % 8193; };
    if (me.rank() == 1) {
      RecvLink& link = me->open_recv(0, kData, shape);
      for (uint64_t i = 0; i < kMessages; ++i) {
        const std::optional<Letter> letter = receive(me, link);
        ASSERT_TRUE(letter);
        ASSERT_EQ(letter->tag, i);
        expect_pattern(letter->data, size(i), i);
      }
      return;
    }
    SendLink& link = me->open_send(1, kData, shape);
    for (uint64_t i = 0; i < kMessages; ++i) {
      // Tickets count up from 1 and mix with slots sent in place.
      if (i % 5 == 4) {
        if (!send(me, link, pattern(size(i), i), i)) return;
        continue;
      }
      std::vector<std::byte> memory = pattern(size(i), i);
      std::optional<Ticket> ticket;
      const auto sent = [&] { return (ticket = link.send(memory, i)).has_value(); };
      if (!me.until(sent, "a credit")) return;
      EXPECT_EQ(*ticket, i - i / 5 + 1);
      if (!me.until([&] { return link.done(*ticket); }, "the memory to be free")) return;
      std::fill(memory.begin(), memory.end(), std::byte{0xee});
    }
  });
}

TEST_P(Conformance, SendFromMemoryNeedsACredit) {
  if (!backend().traits.send_from_memory) GTEST_SKIP() << "not offered by this transport";
  run(2, [](Member& me) {
    const LinkShape shape{2, 128};
    const std::vector<std::byte> memory = pattern(128, 3);
    if (me.rank() == 0) {
      SendLink& link = me->open_send(1, kData, shape);
      for (uint64_t i = 0; i < shape.slots; ++i)
        if (!me.until([&] { return link.send(memory, i).has_value(); }, "a credit")) return;
      me.linger(0.01);
      EXPECT_FALSE(link.send(memory, 9));
      EXPECT_TRUE(link.reserve().empty());
      me.word(0) = 1;
      if (!me.until([&] { return link.send(memory, 2).has_value(); }, "a credit given back"))
        return;
      const auto free = [&] { return link.done(1) && link.done(2) && link.done(3); };
      me.until(free, "the memory to be free");
      return;
    }
    RecvLink& link = me->open_recv(0, kData, shape);
    if (!me.until([&] { return me.word(0) == 1; }, "the sender")) return;
    for (uint64_t i = 0; i < 3; ++i) {
      const std::optional<Letter> letter = receive(me, link);
      ASSERT_TRUE(letter);
      EXPECT_EQ(letter->tag, i);
      expect_pattern(letter->data, 128, 3);
    }
  });
}

// Posts before anything can have come, so that the messages must go to the posted memory.
void receive_posted(Member& me, RecvLink& link) {
  std::vector<std::byte> first(500), second(8192);
  const std::optional<Ticket> a = link.post(first);
  ASSERT_TRUE(a);
  EXPECT_EQ(*a, 1u);
  const std::optional<Ticket> b = link.post(second);
  me.word(0) = 1;
  std::optional<RecvLink::Placed> placed;
  if (!me.until([&] { return (placed = link.done(*a)).has_value(); }, "a placed message")) return;
  EXPECT_EQ(placed->bytes, 500u);
  EXPECT_EQ(placed->tag, 71u);
  expect_pattern(first, 500, 1);
  if (b) {  // else too many posts: it comes in a slot, and is the third's predecessor below
    EXPECT_EQ(*b, 2u);
    if (!me.until([&] { return (placed = link.done(*b)).has_value(); }, "the second")) return;
    EXPECT_EQ(placed->bytes, 0u);
    EXPECT_EQ(placed->tag, 72u);
  } else {
    ASSERT_TRUE(receive(me, link));
  }
  const std::optional<Letter> third = receive(me, link);
  ASSERT_TRUE(third);
  EXPECT_EQ(third->tag, 73u);
  expect_pattern(third->data, 8192, 3);
}

TEST_P(Conformance, PlacesIntoPostedMemory) {
  if (!backend().traits.recv_into_memory) GTEST_SKIP() << "not offered by this transport";
  run(2, [](Member& me) {
    const LinkShape shape{3, 8192};
    if (me.rank() == 1) return receive_posted(me, me->open_recv(0, kData, shape));
    SendLink& link = me->open_send(1, kData, shape);
    if (!me.until([&] { return me.word(0) == 1; }, "the posts")) return;
    send(me, link, pattern(500, 1), 71);
    send(me, link, {}, 72);
    send(me, link, pattern(8192, 3), 73);
  });
}

// Whatever the race between messages and posts, each message is found exactly once, in order.
TEST_P(Conformance, PostsRaceWithMessages) {
  if (!backend().traits.recv_into_memory) GTEST_SKIP() << "not offered by this transport";
  run(2, [](Member& me) {
    const LinkShape shape{4, 2048};
    constexpr uint64_t kMessages = 300;
    if (me.rank() == 0) {
      SendLink& link = me->open_send(1, kData, shape);
      for (uint64_t i = 0; i < kMessages; ++i)
        if (!send(me, link, pattern(i * 37 % 2049, i), i)) return;
      return;
    }
    RecvLink& link = me->open_recv(0, kData, shape);
    std::vector<std::byte> memory(2048);
    for (uint64_t i = 0; i < kMessages; ++i) {
      const std::optional<Ticket> ticket = i % 3 == 2 ? std::nullopt : link.post(memory);
      if (!ticket) {
        const std::optional<Letter> letter = receive(me, link);
        if (!letter) return;
        ASSERT_EQ(letter->tag, i);
        expect_pattern(letter->data, i * 37 % 2049, i);
        continue;
      }
      std::optional<RecvLink::Placed> placed;
      const auto done = [&] { return (placed = link.done(*ticket)) || !link.status().ok(); };
      if (!me.until(done, "a placed message")) return;
      ASSERT_TRUE(placed) << link.status().to_string();
      ASSERT_EQ(placed->tag, i);
      expect_pattern(ConstBytes(memory).first(placed->bytes), i * 37 % 2049, i);
    }
  });
}

TEST_P(Conformance, AMessageThatArrivedBeforeThePostIsPeekedAt) {
  if (!backend().traits.recv_into_memory) GTEST_SKIP() << "not offered by this transport";
  run(2, [](Member& me) {
    const LinkShape shape{2, 512};
    if (me.rank() == 0) {
      send(me, me->open_send(1, kData, shape), pattern(300, 5), 5);
      return;
    }
    RecvLink& link = me->open_recv(0, kData, shape);
    if (!me.until([&] { return link.peek() != nullptr; }, "a message")) return;
    const std::optional<Letter> letter = receive(me, link);
    ASSERT_TRUE(letter);
    expect_pattern(letter->data, 300, 5);
  });
}

TEST_P(Conformance, AMessageLongerThanThePostedMemoryIsAnError) {
  if (!backend().traits.recv_into_memory) GTEST_SKIP() << "not offered by this transport";
  run(2, [](Member& me) {
    const LinkShape shape{2, 4096};
    if (me.rank() == 0) {
      SendLink& link = me->open_send(1, kData, shape);
      if (!me.until([&] { return me.word(0) == 1; }, "the post")) return;
      send(me, link, pattern(4096, 5), 5);
      return;
    }
    RecvLink& link = me->open_recv(0, kData, shape);
    std::vector<std::byte> memory(256 + 64, std::byte{0xab});
    ASSERT_TRUE(link.post(Bytes(memory).first(256)));
    me.word(0) = 1;
    if (!me.until([&] { return !link.status().ok(); }, "the link's error")) return;
    for (const char* part : {"256", "4096"})
      EXPECT_NE(link.status().message().find(part), std::string_view::npos)
          << link.status().to_string();
    for (size_t i = 256; i < memory.size(); ++i) EXPECT_EQ(memory[i], std::byte{0xab});
  });
}

}  // namespace
}  // namespace weft::conformance
