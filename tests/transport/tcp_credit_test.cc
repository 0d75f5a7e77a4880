// What may be under way on a link over TCP, and when the receiver says that it has released.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/transport/conformance.h"
#include "tests/transport/tcp_world.h"
#include "transport/tcp/credit.h"

namespace weft::tcp {
namespace {

using conformance::pattern;

constexpr LinkId kLink = 3;
constexpr LinkShape kLarge{4, 64 << 10}, kSmall{4, 4096};
constexpr uint64_t kShortOnes = 4 * Credit::kSlot;  // that may be under way in kLarge

Frame data(uint64_t sequence, uint32_t length) {
  return {FrameKind::data, kLink, length, sequence, 100 + sequence};
}

TEST(TcpCredit, OnlyShortMessagesInLargeSlotsWeighLess) {
  const Credit large(kLarge), small(kSmall);
  EXPECT_EQ(large.all(), small.all());
  for (const size_t bytes : {size_t{0}, Credit::kShortBytes}) {
    EXPECT_EQ(large.weight(bytes), 1);
    EXPECT_EQ(small.weight(bytes), Credit::kSlot);
  }
  EXPECT_EQ(large.weight(Credit::kShortBytes + 1), Credit::kSlot);
  EXPECT_EQ(large.slot_bytes(1, kLarge), Credit::kShortBytes);
  EXPECT_EQ(large.slot_bytes(Credit::kSlot, kLarge), kLarge.slot_bytes);
  EXPECT_EQ(large.places(), kShortOnes);
  EXPECT_EQ(small.places(), 4u);
}

class TcpCreditOfASender : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(world.until([&] { return out.send({}, 0).has_value(); }));
  }
  // Sends what goes; how many.
  uint64_t send_all_that_may(size_t bytes) {
    const auto memory = pattern(bytes, 1);
    uint64_t sent = 0;
    for (; std::optional<Ticket> ticket = out.send(memory, 0); ++sent)
      EXPECT_TRUE(world.until([&] { return out.done(*ticket); }));
    return sent;
  }
  void release_one() {
    ASSERT_TRUE(world.until([&] { return in.peek() != nullptr; }));
    in.release();
  }

  World world{2};
  SendLink& out = world[0].open_send(1, kLink, kLarge);
  RecvLink& in = world[1].open_recv(0, kLink, kLarge);
};

// One went in SetUp.
TEST_F(TcpCreditOfASender, HasShortOnesUnderWayAsTheyWeigh) {
  EXPECT_EQ(send_all_that_may(Credit::kShortBytes), kShortOnes - 1);
  EXPECT_TRUE(out.reserve().empty());
  for (uint64_t i = 0; i < Credit::kSlot; ++i) {
    EXPECT_TRUE(out.reserve().empty()) << "room for a slot after " << i << " released";
    release_one();
    for (int k = 0; k < 40; ++k) world[k % 2].poll();
  }
  EXPECT_TRUE(world.until([&] { return !out.reserve().empty(); }));
  EXPECT_EQ(send_all_that_may(1), uint64_t{Credit::kSlot});
}

TEST_F(TcpCreditOfASender, HasAsManyLongOnesUnderWayAsSlots) {
  EXPECT_EQ(send_all_that_may(Credit::kShortBytes + 1), 3u);
  EXPECT_EQ(send_all_that_may(0), uint64_t{Credit::kSlot} - 1);
  release_one();
  release_one();
  EXPECT_TRUE(world.until([&] { return !out.reserve().empty(); }));
}

// Memory for as many as may come, which go there in order.
TEST_F(TcpCreditOfASender, HasAsManyShortOnesPostedFor) {
  release_one();  // SetUp's
  std::vector<std::vector<std::byte>> memory(kShortOnes, std::vector<std::byte>(100));
  std::vector<Ticket> tickets;
  for (auto& each : memory) {
    const std::optional<Ticket> ticket = in.post(each);
    ASSERT_TRUE(ticket) << tickets.size();
    tickets.push_back(*ticket);
  }
  EXPECT_FALSE(in.post(memory[0]));
  for (uint64_t i = 0; i < 3 * kShortOnes; ++i) {
    const auto content = pattern(1 + i % 100, i);
    ASSERT_TRUE(world.until([&] { return out.send(content, i).has_value(); }));
    std::optional<RecvLink::Placed> placed;
    const uint64_t at = i % kShortOnes;
    ASSERT_TRUE(world.until([&] { return (placed = in.done(tickets[at])).has_value(); }));
    EXPECT_EQ(placed->tag, i);
    ASSERT_EQ(placed->bytes, content.size());
    EXPECT_TRUE(std::equal(content.begin(), content.end(), memory[at].begin()));
    tickets[at] = in.post(memory[at]).value_or(0);
    ASSERT_NE(tickets[at], 0u);
  }
}

// What a rank says about a peer that sends so many messages of a length, none of them released.
std::string said_about(uint64_t count, uint32_t length) {
  World world(2, 1, 1);
  world[0].open_recv(1, kLink, kLarge);
  RawPeer peer(world[0]);
  peer.connect(1, 0);
  for (uint64_t i = 0; i < count; ++i) {
    peer.write_anyhow(ConstBytes(encode(data(i, length))));
    peer.write_anyhow(pattern(length, i));
  }
  for (int i = 0; i < 200; ++i) world[0].poll();
  return std::string(world[0].peer_status(1).message());
}

TEST(TcpCredit, MoreThanThereIsCreditForIsTheSendersFault) {
  EXPECT_EQ(said_about(kShortOnes, 8), "ok");
  EXPECT_NE(said_about(kShortOnes + 1, 8).find("no credit"), std::string::npos);
  EXPECT_EQ(said_about(4, 5000), "ok");
  EXPECT_NE(said_about(5, 5000).find("no credit"), std::string::npos);
}

// Half of all that may be under way is told of at once: by the length of messages, how many.
TEST(TcpCredit, ShortMessagesAreReturnedByTheDozen) {
  for (const auto& [length, together] : {std::pair{100u, kShortOnes / 2}, {5000u, uint64_t{2}}}) {
    World world(2, 1, 1);
    RecvLink& in = world[0].open_recv(1, kLink, kLarge);
    RawPeer peer(world[0]);
    peer.connect(1, 0);
    ASSERT_EQ(peer.read_frame()->kind, FrameKind::open_recv);
    for (uint64_t sequence = 0; sequence < 4 * together; ++sequence) {
      peer.write(data(sequence, length), pattern(length, sequence));
      ASSERT_TRUE(world.until([&] { return in.peek() != nullptr; }));
      in.release();
      if ((sequence + 1) % together != 0) continue;
      const std::optional<Frame> credit = peer.read_frame();
      ASSERT_TRUE(credit);
      EXPECT_EQ(credit->kind, FrameKind::credit);
      EXPECT_EQ(credit->sequence, sequence + 1);
    }
  }
}

}  // namespace
}  // namespace weft::tcp
