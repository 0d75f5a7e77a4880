// The memory of slots: taken where a message lies in one, and not longer.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/transport/tcp_world.h"
#include "transport/tcp/slot_pool.h"

namespace weft::tcp {
namespace {

TEST(SlotPool, GivesWhatCameBackLastFirst) {
  SlotPool pool;
  SlotPool::Memory one = pool.take(256), other = pool.take(256);
  std::byte* const last = other.get();
  EXPECT_NE(one.get(), last);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(last) % 64, 0u);
  pool.give(std::move(one), 256);
  pool.give(std::move(other), 256);
  EXPECT_EQ(pool.take(256).get(), last);
}

TEST(SlotPool, KeepsLengthsApart) {
  SlotPool pool;
  SlotPool::Memory shorter = pool.take(1), longer = pool.take(4096);  // 1: less than a list's node
  std::byte* const first = shorter.get();
  pool.give(std::move(shorter), 1);
  pool.give(std::move(longer), 4096);
  EXPECT_EQ(pool.take(1).get(), first);
  const SlotPool::Memory whole = pool.take(4096);
  std::fill_n(whole.get(), 4096, std::byte{1});
}

TEST(SlotPool, FindsEachLengthAmongOthers) {
  SlotPool pool;
  std::map<std::byte*, size_t> kept;
  for (const size_t bytes : {64, 4096, 64, 128, 4096, 128, 64})
    kept[pool.take(bytes).release()] = bytes;
  for (const auto& [memory, bytes] : kept) pool.give(SlotPool::Memory(memory), bytes);
  for (const size_t bytes : {128, 64, 4096, 64, 128, 64, 4096}) {
    std::byte* const memory = pool.take(bytes).release();
    ASSERT_EQ(kept.count(memory), 1u);
    EXPECT_EQ(kept[memory], bytes);
    kept.erase(memory);
    SlotPool::Free()(memory);
  }
  EXPECT_TRUE(kept.empty());
}

// One place for messages of all links that are let go before the next one comes, and two for those
// that are not.
TEST(TcpSlots, ArePlacesOfNoLink) {
  constexpr LinkShape kShape{4, 4096};
  World world(2);
  const auto send = [&](LinkId id) {
    SendLink& out = world[0].open_send(1, id, kShape);
    RecvLink& in = world[1].open_recv(0, id, kShape);
    Bytes slot;
    EXPECT_TRUE(world.until([&] { return !(slot = out.reserve()).empty(); }));
    std::fill(slot.begin(), slot.end(), std::byte(id));
    out.commit(slot.size(), 0);
    EXPECT_TRUE(world.until([&] { return in.peek() != nullptr; }));
    return in.peek()->data.data();
  };
  const std::byte* const first = send(1);
  world[1].open_recv(0, 1, kShape).release();
  EXPECT_EQ(send(2), first);
  const std::byte* const other = send(1);
  EXPECT_NE(other, first);
  EXPECT_EQ(*first, std::byte{2});
  EXPECT_EQ(*other, std::byte{1});
  world[1].open_recv(0, 2, kShape).release();
}

}  // namespace
}  // namespace weft::tcp
