// Two ranks over a fabric in memory: what a message costs, and what every call of libibverbs does
// when it fails.
#include "transport/verbs/verbs.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "tests/support/child.h"
#include "tests/support/guarded_memory.h"
#include "tests/transport/conformance.h"
#include "tests/transport/verbs/world.h"
#include "transport/backends.h"
#include "transport/verbs/immediate.h"
#include "transport/verbs/place.h"

namespace weft::verbs {
namespace {

using conformance::pattern;
using test::config_of;
using test::Fabric;
using test::FabricOptions;
using test::kLarge;
using test::Link;
using test::one_thread;
using test::Posted;
using test::World;

uint64_t address_of(const std::vector<std::byte>& memory) {
  return reinterpret_cast<uint64_t>(memory.data());
}

// The whole of it: the device reads the sender's memory and writes the receiver's.
TEST(Verbs, ALargeMessageIsOneRequestAndNoCopy) {
  World world;
  Link link(world);
  std::vector<std::byte> memory(kLarge), posted(kLarge);
  for (uint64_t i = 0; i < 5; ++i) {
    const auto data = pattern(kLarge, i);
    std::copy(data.begin(), data.end(), memory.begin());
    const auto into = link.in.post(posted);
    ASSERT_TRUE(into);
    world.until([n = 0]() mutable { return ++n > 200; });  // the sender hears of it
    world.fabric->forget_posted();
    std::optional<Ticket> ticket;
    ASSERT_TRUE(world.until([&] { return (ticket = link.out.send(memory, 7)).has_value(); }));
    const std::vector<Posted> requests = world.fabric->posted();
    // The tag is told with the first message, and then only when it changes.
    ASSERT_EQ(requests.size(), i == 0 ? 2u : 1u);
    EXPECT_EQ(requests[0].from, std::vector<uint64_t>{address_of(memory)});
    EXPECT_EQ(requests[0].to, address_of(posted));
    EXPECT_EQ(requests[0].bytes, kLarge);
    std::optional<RecvLink::Placed> placed;
    ASSERT_TRUE(world.until([&] { return (placed = link.in.done(*into)).has_value(); }));
    EXPECT_EQ(placed->tag, 7u);
    EXPECT_TRUE(posted == data);
    ASSERT_TRUE(world.until([&] { return link.out.done(*ticket); }));
  }
}

TEST(Verbs, WhatIsNotPostedForIsOneRequestIntoTheRing) {
  World world;
  Link link(world);
  const auto memory = pattern(kLarge, 3);
  world.fabric->forget_posted();
  ASSERT_TRUE(link.out.send(memory, 9));
  const std::vector<Posted> requests = world.fabric->posted();
  ASSERT_EQ(requests.size(), 1u);
  EXPECT_EQ(requests[0].from.back(), address_of(memory));
  ASSERT_TRUE(world.until([&] { return link.in.peek() != nullptr; }));
  EXPECT_EQ(link.in.peek()->tag, 9u);
  EXPECT_TRUE(conformance::same_bytes(link.in.peek()->data, memory));
}

TEST(Verbs, SmallMessagesAreInlineAndSeldomSignalled) {
  World world;
  Link link(world, {64, 64});
  world.fabric->forget_posted();
  for (uint64_t i = 0; i < 64; ++i) {
    ASSERT_FALSE(link.out.reserve().empty());
    link.out.commit(8, i);
  }
  const std::vector<Posted> requests = world.fabric->posted();
  ASSERT_EQ(requests.size(), 64u);
  EXPECT_TRUE(std::ranges::all_of(requests, &Posted::in_line));
  EXPECT_LE(std::ranges::count_if(requests, &Posted::signalled), 4);
}

// As the caller may get other pages at the same address.
TEST(Verbs, MemoryIsRegisteredOnceInACallAndForgottenBehindIt) {
  World world;
  Link link(world);
  const auto memory = pattern(kLarge, 3);
  const auto send = [&] {
    std::optional<Ticket> ticket;
    ASSERT_TRUE(world.until([&] { return (ticket = link.out.send(memory, 1)).has_value(); }));
    ASSERT_TRUE(world.until([&] { return link.in.peek() && link.out.done(*ticket); }));
    link.in.release();
  };
  const size_t before = world.fabric->regions();
  for (int i = 0; i < 3; ++i) send();
  EXPECT_EQ(world.fabric->regions(), before + 1);
  world[0].forget_memory();
  EXPECT_EQ(world.fabric->regions(), before);
  send();
  EXPECT_EQ(world.fabric->regions(), before + 1);
}

// What it has is its parent's, too.
TEST(Verbs, AForkedChildTakesNothingApart) {
  World world;
  Link link(world);
  const auto memory = pattern(kLarge, 3);
  ASSERT_TRUE(link.out.send(memory, 1));  // registers it
  const weft::test::GuardedMemory of_gpu(4096);
  ASSERT_TRUE(world[0].register_device(of_gpu.bytes(), of_gpu.descriptor()).ok());
  const size_t pairs = world.fabric->queue_pairs(), regions = world.fabric->regions();
  ASSERT_GT(pairs, 0u);
  const int status = weft::test::in_child([&] {
    world.drop(0);
    Fabric& fabric = *world.fabric;
    const bool all_there = fabric.queue_pairs() == pairs && fabric.regions() == regions;
    if (!all_there || !fabric.violations().empty()) ::_exit(1);
  });
  ASSERT_EQ(status, 0);
  ASSERT_TRUE(world.until([&] { return link.in.peek() != nullptr; }));
  EXPECT_TRUE(conformance::same_bytes(link.in.peek()->data, memory));
}

TEST(Verbs, MemoryThatCannotBeRegisteredIsCopied) {
  World world;
  Link link(world);
  const auto memory = pattern(kLarge, 3);
  std::vector<std::byte> posted(kLarge);
  world.fabric->fail_call("reg_mr", ENOMEM, 1, 100);
  const auto into = link.in.post(posted);
  ASSERT_TRUE(into);
  const auto ticket = link.out.send(memory, 1);
  ASSERT_TRUE(ticket);
  EXPECT_TRUE(link.out.done(*ticket)) << "it was copied";
  ASSERT_TRUE(world.until([&] { return link.in.done(*into).has_value(); }));
  EXPECT_TRUE(posted == memory);
}

// Every one makes the transport fail, and nothing is left behind.
TEST(Verbs, EveryCallThatSetsUpMayFail) {
  for (const char* call : {"get_device_list", "open_device", "query_device", "query_port",
                           "query_gid_table", "alloc_pd", "create_comp_channel"}) {
    const auto fabric = std::make_shared<Fabric>(one_thread());
    const auto host = fabric->host(0);
    fabric->fail_call(call, EIO, 1, 100);
    EXPECT_FALSE(make_verbs(config_of(0), host, {}).ok()) << call;
  }
}

TEST(Verbs, ADeviceMayGiveFewerRequestsThanItSays) {
  FabricOptions options;
  options.real_requests = 100;
  options.inline_bytes = 0;
  World world(options);
  Link link(world, {1000, 64});
  for (uint64_t i = 0; i < 3000; ++i) {
    ASSERT_TRUE(world.until([&] { return !link.out.reserve().empty(); }));
    link.out.commit(8, i);
    while (const Message* message = link.in.peek()) {
      EXPECT_LE(message->tag, i);
      link.in.release();
    }
  }
  world.fabric->fail_call("create_qp", ENOMEM, 1, 1000);
  const SendLink& none = world[0].open_send(1, 2, {1000, 64});
  EXPECT_NE(none.status().message().find("ibv_create_qp for 64 requests"), std::string_view::npos)
      << none.status().to_string();
}

TEST(Verbs, WhatShallBeEncryptedDoesNotTravelThisWay) {
  TransportConfig config = config_of(0);
  config.encrypt = true;
  const Status status =
      make_verbs(config, std::make_shared<Fabric>(one_thread())->host(0), {}).status();
  EXPECT_EQ(status.code(), Code::unsupported);
  EXPECT_NE(status.message().find("WEFT_ENCRYPT"), std::string_view::npos);
}

void expect_loss_of_rank_1(const Status& status) {
  EXPECT_EQ(status.code(), Code::peer_lost) << status.to_string();
  EXPECT_EQ(status.peer(), 1) << status.to_string();
  for (const char* part : {"rank 1", "fake0 port 1"})
    EXPECT_NE(status.message().find(part), std::string_view::npos) << status.to_string();
}

TEST(Verbs, EveryErrorOfACompletionNamesThePeerAndThePort) {
  for (int code = IBV_WC_LOC_LEN_ERR; code <= IBV_WC_GENERAL_ERR; ++code) {
    World world;
    Link link(world, {2, 64});
    world.fabric->fail_request(static_cast<ibv_wc_status>(code));
    link.out.commit(8, 1);
    ASSERT_TRUE(world.until([&] { return !link.out.status().ok() && !link.in.status().ok(); }));
    expect_loss_of_rank_1(link.out.status());
    EXPECT_EQ(link.in.status().peer(), 0) << "the peer is told";
  }
}

// Credits ride with the answers, in either direction.
TEST(Verbs, AnAnsweredMessageIsOneRequest) {
  World world;
  Link there(world, {4, 64}), back(world, {4, 64}, 1, 2);
  world.fabric->forget_posted();
  constexpr uint64_t kRounds = 50;
  for (uint64_t i = 0; i < kRounds; ++i) {
    ASSERT_TRUE(world.until([&] { return !there.out.reserve().empty(); }));
    there.out.commit(8, i);
    ASSERT_TRUE(world.until([&] { return there.in.peek() != nullptr; }));
    EXPECT_EQ(there.in.peek()->tag, i);
    there.in.release();
    ASSERT_TRUE(world.until([&] { return !back.out.reserve().empty(); }));
    back.out.commit(8, i);
    ASSERT_TRUE(world.until([&] { return back.in.peek() != nullptr; }));
    back.in.release();
  }
  EXPECT_EQ(world.fabric->posted().size(), 2 * kRounds);
}

TEST(Verbs, OfANumberTheLowBitsAreEnough) {
  constexpr uint64_t kFar = 5 * kNumbers;
  for (const uint64_t about : {kFar, kFar - 1, kFar + kNumbers / 2})
    for (const int64_t step : {-1000, -1, 0, 1, 1000}) {
      const uint64_t number = about + static_cast<uint64_t>(step);
      EXPECT_EQ(nearest(about, immediate(kCredit, number)), number) << about << step;
    }
  EXPECT_GT(nearest(0, immediate(kCredit, kNumbers - 1)), kFar) << "there is no number before 0";
}

TEST(Verbs, CallsThatFailOnTheWayNameThePeer) {
  for (const char* call : {"post_send", "poll_cq", "req_notify_cq"}) {
    World world;
    Link link(world, {2, 64});
    world.fabric->fail_call(call, EIO, 1, 1);
    link.out.commit(8, 1);
    ASSERT_TRUE(world.until([&] {
      world[0].wait(Deadline::after(0));
      return !link.out.status().ok();
    })) << call;
    expect_loss_of_rank_1(link.out.status());
  }
}

TEST(Verbs, AnImmediateThatIsLostIsNoticedAtTheNext) {
  World world;
  Link link(world, {4, 64});
  world.fabric->lose_immediate();
  for (int i = 0; i < 2; ++i) {
    ASSERT_FALSE(link.out.reserve().empty());
    link.out.commit(8, 1);
  }
  ASSERT_TRUE(world.until([&] { return !link.in.status().ok(); }));
  EXPECT_EQ(link.in.peek(), nullptr);
  for (const char* part : {"something was lost", "message 1", "port 1"})
    EXPECT_NE(link.in.status().message().find(part), std::string_view::npos)
        << link.in.status().to_string();
}

TEST(Verbs, APortThatComesBackInTimeIsNoLoss) {
  Tuning tuning;
  tuning.port_down = 0.3;
  World world({}, {}, tuning);
  Link link(world, {2, 64});
  const auto poll_for = [&](double seconds) {
    const Deadline deadline = Deadline::after(seconds);
    world.until([&] { return deadline.expired(); });
  };
  world.fabric->pull(0, true);
  poll_for(0.01);  // it is heard of
  world.fabric->plug(0);
  poll_for(0.4);
  ASSERT_TRUE(link.out.status().ok()) << link.out.status().to_string();
  link.out.commit(8, 1);
  ASSERT_TRUE(world.until([&] { return link.in.peek() != nullptr; }))
      << link.in.status().to_string();
}

TEST(VerbsPlace, TextsAndMessagesSurviveTheirJourney) {
  RankPlace rank;
  rank.place = {"mlx5_0 port 2", true, IBV_GID_TYPE_IB, IBV_MTU_2048, 3, 77, {}};
  rank.place.gid.raw[15] = 9;
  rank.control = "any text, with spaces";
  const auto read = decode_rank_place(encode(rank));
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ(encode(*read), encode(rank));
  EXPECT_EQ(read->place.port, "mlx5_0 port 2");
  EXPECT_EQ(read->control, rank.control);
  EXPECT_FALSE(decode_rank_place("weft-verbs/2 rubbish").ok());
  std::string older = encode(rank);  // whose messages have no credits in their headers
  older.replace(0, 12, "weft-verbs/1");
  EXPECT_FALSE(decode_rank_place(older).ok());

  Control said{ControlKind::open, true, 5, {4, 64}, {2, 99, {1, 2}}, 0x1234567890, 42};
  std::array<std::byte, kControlBytes> bytes;
  encode(said, bytes);
  const auto heard = decode_control(bytes);
  ASSERT_TRUE(heard);
  EXPECT_EQ(heard->link, 5u);
  EXPECT_EQ(heard->shape, said.shape);
  EXPECT_EQ(heard->offer.numbers, said.offer.numbers);
  EXPECT_EQ(heard->address, said.address);
  bytes[0] = std::byte{200};
  EXPECT_FALSE(decode_control(bytes));
}

TEST(VerbsLibrary, OneThatIsNotThereIsSaidSo) {
  const auto none = load_library("libno-such-thing.so");
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.status().code(), Code::unsupported);
  EXPECT_NE(none.status().message().find("libno-such-thing"), std::string_view::npos);
  const auto other = load_library("libc.so.6");
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.status().message().find("ibv_"), std::string_view::npos);
}

}  // namespace
}  // namespace weft::verbs
