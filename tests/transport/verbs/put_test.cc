// Messages from and into memory that no CPU may touch.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>

#include "tests/support/contains.h"
#include "tests/support/guarded_memory.h"
#include "tests/transport/conformance.h"
#include "tests/transport/verbs/world.h"
#include "transport/backends.h"

namespace weft::verbs {
namespace {

using conformance::pattern;
using test::Link;
using test::Posted;
using test::World;
using weft::test::contains;
using weft::test::GuardedMemory;

constexpr size_t kMemory = 4 << 20;
constexpr LinkShape kHeaders{4, 64};

// Rank 0 puts, rank 1 lends; both have registered all of their memory.
struct Put : World {
  explicit Put(const test::FabricOptions& options = {}, const VerbsOptions& verbs = {})
      : World(options, verbs) {
    EXPECT_TRUE((*this)[0].register_device(from.bytes(), from.descriptor()).ok());
    EXPECT_TRUE((*this)[1].register_device(into.bytes(), into.descriptor()).ok());
  }
  std::optional<Ticket> put(SendLink& out, size_t at, size_t bytes, size_t to, uint64_t tag) {
    std::optional<Ticket> ticket;
    EXPECT_TRUE(until([&] {
      ticket = out.put(from.bytes().subspan(at, bytes), to, tag);
      return ticket.has_value();
    })) << out.status().to_string();
    return ticket;
  }
  GuardedMemory from{kMemory}, into{kMemory};
};

// Of all sizes, from and to anywhere, more than there are slots.
void moves_everything(Put& world) {
  Link link(world, kHeaders);
  link.in.lend(world.into.bytes());
  const auto data = pattern(kMemory, 5);
  std::ranges::copy(data, world.from.seen().begin());
  uint64_t tag = 0;
  for (const size_t bytes :
       {size_t{0}, size_t{1}, size_t{60}, size_t{64}, size_t{1000}, size_t{16384}, size_t{1} << 20})
    for (const size_t shift : {0, 1, 4099}) {
      const size_t to = (1 << 20) + shift * 3;
      const auto ticket = world.put(link.out, shift, bytes, to, ++tag);
      ASSERT_TRUE(world.until([&] { return link.in.peek() != nullptr; }));
      EXPECT_EQ(link.in.peek()->tag, tag);
      EXPECT_TRUE(link.in.peek()->data.empty());
      world.fabric->flush_device_writes();
      EXPECT_TRUE(std::ranges::equal(world.into.seen().subspan(to, bytes),
                                     ConstBytes(data).subspan(shift, bytes)));
      link.in.release();
      ASSERT_TRUE(world.until([&] { return link.out.done(*ticket); }));
    }
}

TEST(VerbsPut, MovesMemoryThatNoCpuTouches) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    test::FabricOptions options;
    options.seed = seed;
    Put world(options);
    moves_everything(world);
  }
}

TEST(VerbsPut, GoesOverSeveralQueuesAndWherePacketsOvertake) {
  VerbsOptions options;
  options.queues = 3;
  options.adaptive_routing = true;
  Put world({}, options);
  moves_everything(world);
}

TEST(VerbsPut, IsAWriteAndAHeader) {
  Put world;
  Link link(world, kHeaders);
  link.in.lend(world.into.bytes());
  (void)world.put(link.out, 0, 1, 0, 1);
  world.fabric->forget_posted();
  (void)world.put(link.out, 5, 40, 7, 1);
  const std::vector<Posted> requests = world.fabric->posted();
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[0].from[0], reinterpret_cast<uint64_t>(world.from.bytes().data() + 5));
  EXPECT_EQ(requests[0].to, reinterpret_cast<uint64_t>(world.into.bytes().data() + 7));
  EXPECT_FALSE(requests[0].in_line || requests[0].signalled);
  EXPECT_TRUE(requests[1].in_line && requests[1].signalled);
}

// Whichever end opens first.
TEST(VerbsPut, WaitsForWhatIsLent) {
  for (const bool receiver_first : {false, true}) {
    Put world;
    world[0].open_send(1, 2, kHeaders);  // another one, so that it hears of this one early
    const auto open_receiver = [&]() -> RecvLink& { return world[1].open_recv(0, 1, kHeaders); };
    if (receiver_first) open_receiver().lend(world.into.bytes());
    const Deadline heard = Deadline::after(0.05);
    ASSERT_TRUE(world.until([&] { return heard.expired(); }));
    SendLink& out = world[0].open_send(1, 1, kHeaders);
    RecvLink& in = open_receiver();
    ASSERT_TRUE(world.until([&] { return !out.reserve().empty(); }));
    if (!receiver_first) {
      EXPECT_FALSE(out.put(world.from.bytes(), 0, 1));
      in.lend(world.into.bytes());
    }
    (void)world.put(out, 0, 100, 0, 1);
    ASSERT_TRUE(world.until([&] { return in.peek() != nullptr; }));
  }
}

TEST(VerbsPut, StaysWithinWhatIsLent) {
  Put world;
  Link link(world, kHeaders);
  link.in.lend(world.into.bytes().first(4096));
  (void)world.put(link.out, 0, 96, 4000, 1);
  EXPECT_FALSE(link.out.put(world.from.bytes().first(97), 4000, 1));
  EXPECT_EQ(link.out.status().code(), Code::mismatch);
  EXPECT_TRUE(contains(link.out.status(), "97 bytes at 4000 of 4096"))
      << link.out.status().to_string();
}

// Callers' memory is forgotten behind every call, this is not.
TEST(VerbsPut, ItsMemoryIsRegisteredForGood) {
  Put world;
  Link link(world, kHeaders);
  EXPECT_EQ(world.fabric->device_regions(), 2u);
  link.in.lend(world.into.bytes());
  for (uint64_t i = 1; i <= 3; ++i) {
    (void)world.put(link.out, 0, 1000, 0, i);
    ASSERT_TRUE(world.until([&] { return link.in.peek() != nullptr; }));
    link.in.release();
    for (const Rank rank : {0, 1}) world[rank].forget_memory();
  }
  EXPECT_EQ(world.fabric->device_regions(), 2u);
}

// Afterwards the memory is its owner's alone.
TEST(VerbsPut, EndsWithEitherEnd) {
  for (const Rank who : {0, 1}) {
    Put world;
    Link link(world, kHeaders), other(world, kHeaders, 0, 2);
    link.in.lend(world.into.bytes());
    const auto ticket = world.put(link.out, 0, 1 << 20, 0, 1);
    world[who].abandon();
    ASSERT_TRUE(world.until([&] { return link.out.done(*ticket); }));
    EXPECT_FALSE(link.out.put(world.from.bytes(), 0, 2));
    for (int i = 0; i < 200; ++i)
      for (const Rank rank : {0, 1}) world[rank].poll();
    std::ranges::fill(world.into.seen(), std::byte{9});
    world.fabric->step(10000);
    world.fabric->flush_device_writes();
    EXPECT_TRUE(who == 0 || world.into.seen()[0] == std::byte{9});
    // Links without such memory go on.
    ASSERT_TRUE(world.until([&] { return !other.out.reserve().empty(); }));
    other.out.commit(8, 3);
    ASSERT_TRUE(world.until([&] { return other.in.peek() != nullptr; }));
  }
}

TEST(VerbsPut, RefusedMemoryIsSaidSo) {
  World world;
  GuardedMemory memory(4096);
  world.fabric->fail_call("reg_dmabuf_mr", EOPNOTSUPP);
  const Status refused = world[0].register_device(memory.bytes(), memory.descriptor());
  EXPECT_EQ(refused.code(), Code::system);
  EXPECT_TRUE(contains(refused, "ibv_reg_dmabuf_mr of 4096 bytes")) << refused.to_string();
  Link link(world);  // all else goes on
}

TEST(VerbsPut, OtherTransportsTakeNoSuchMemory) {
  TransportConfig config;
  const auto tcp = make_transport("tcp", config);
  ASSERT_TRUE(tcp.ok());
  const Status refused = (*tcp)->register_device({}, -1);
  EXPECT_EQ(refused.code(), Code::unsupported);
  EXPECT_EQ(refused.message(), "tcp takes no memory of GPUs");
}

}  // namespace
}  // namespace weft::verbs
