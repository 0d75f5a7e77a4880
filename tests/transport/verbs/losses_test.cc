// What is lost with a peer, a link or a message, and what is not, over a fabric in memory.
#include <gtest/gtest.h>

#include "tests/transport/verbs/world.h"

namespace weft::verbs {
namespace {

using test::Link;
using test::World;

// The next one has arrived over another queue pair, but will never be whole.
TEST(VerbsLosses, AMessageBehindALostOneDoesNotHideTheLossOfThePeer) {
  VerbsOptions options;
  options.queues = 2;
  World world({}, options);
  Link link(world, {4, 64});
  world.fabric->lose_immediate();
  for (int i = 0; i < 2; ++i) {
    ASSERT_FALSE(link.out.reserve().empty());
    link.out.commit(8, 1);
  }
  world.drop(0);
  ASSERT_TRUE(world.until([&] { return !link.in.status().ok(); }));
  EXPECT_EQ(link.in.status().code(), Code::peer_lost) << link.in.status().to_string();
  EXPECT_EQ(link.in.peek(), nullptr);
}

// Credits ride with messages the other way. The links of these tests have four slots.
void send(Link& link) {
  ASSERT_FALSE(link.out.reserve().empty());
  link.out.commit(8, 0);
}

void send_all(World& world, Link& link, int messages) {
  for (int i = 0; i < messages; ++i) send(link);
  world.until([n = 0]() mutable { return ++n > 200; });  // they come
}

void send_and_take(World& world, Link& link) {
  ASSERT_TRUE(world.until([&] { return !link.out.reserve().empty(); }));
  link.out.commit(8, 0);
  ASSERT_TRUE(world.until([&] { return link.in.peek() != nullptr; }));
  link.in.release();
}

// The sender hears of what has been released.
void expect_room(World& world, Link& link, int messages) {
  for (int i = 0; i < messages; ++i) {
    ASSERT_TRUE(world.until([&] { return !link.out.reserve().empty(); })) << i;
    link.out.commit(8, 0);
  }
}

TEST(VerbsLosses, CreditsOnALinkThatIsAbandonedAreGivenAgain) {
  test::FabricOptions options;
  options.retry_s = 60;
  World world(options);
  Link there(world, {4, 64}), back(world, {4, test::kLarge}, 1, 2);
  send_all(world, there, 3);
  world.fabric->pull(1);
  const std::vector<std::byte> memory(test::kLarge);
  for (int i = 0; i < 3; ++i) {
    ASSERT_NE(there.in.peek(), nullptr);
    there.in.release();
    ASSERT_TRUE(back.out.send(memory, 0));
  }
  world[1].abandon();
  world.fabric->plug(1);
  expect_room(world, there, 4);
}

TEST(VerbsLosses, CreditsOnALinkWithAnErrorAreTaken) {
  World world;
  Link there(world, {4, 64}), back(world, {4, 64}, 1, 2);
  std::vector<std::byte> short_memory(4);
  ASSERT_TRUE(back.in.post(short_memory));
  send(back);
  ASSERT_TRUE(world.until([&] { return !back.in.status().ok(); }));
  for (int i = 0; i < 3; ++i) {
    send_and_take(world, there);
    send(back);
  }
  expect_room(world, there, 4);
}

TEST(VerbsLosses, CreditsDoNotRideOnALinkThatIsAbandoned) {
  World world;
  Link there(world, {4, 64}), back(world, {4, test::kLarge}, 1, 2);
  send_all(world, there, 4);
  const std::vector<std::byte> memory(test::kLarge);
  ASSERT_TRUE(back.out.send(memory, 0));
  ASSERT_FALSE(back.out.reserve().empty());
  world[1].abandon();
  ASSERT_NE(there.in.peek(), nullptr);
  there.in.release();
  back.out.commit(8, 0);
  expect_room(world, there, 1);
}

// Moves what rank 0 sends, but does not listen to what the peer says over TCP.
void fail_unheard(Link& link, RecvLink& other) {
  link.out.commit(8, 0);
  const Deadline deadline = Deadline::after(20);
  while (!link.out.reserve().empty() && !deadline.expired()) other.peek();
}

// The first to fail is one that the peer has abandoned, and says so.
TEST(VerbsLosses, OfTwoLinksThatFailTheSecondIsNotForgotten) {
  test::FabricOptions options;
  options.retry_s = 0.001;
  World world(options);
  Link abandoned(world, {4, 64}), failing(world, {4, 64}, 0, 2), back(world, {4, 64}, 1, 3);
  std::vector<std::byte> memory(64);
  ASSERT_TRUE(abandoned.in.post(memory));
  world[1].abandon();
  fail_unheard(abandoned, back.in);
  world.fabric->fail_request(IBV_WC_RETRY_EXC_ERR);
  fail_unheard(failing, back.in);
  ASSERT_TRUE(world.until([&] { return !failing.out.status().ok(); }));
  EXPECT_EQ(world[0].peer_status(1).code(), Code::peer_lost);
}

// The peer did not listen when the way was lost, and what it had been told had filled the link.
TEST(VerbsLosses, ThePeerIsToldHoweverMuchItWasToldBefore) {
  World world;
  const Link link(world, {4, 64});
  for (LinkId id = 2; id < 40; ++id) world[0].open_send(1, id, {4, 64});
  world.fabric->pull(0, true);
  const Deadline deadline = Deadline::after(20);
  while (world[0].peer_status(1).ok() && !deadline.expired()) world[0].poll();
  ASSERT_TRUE(world.until([&] { return !world[1].peer_status(0).ok(); }));
  EXPECT_EQ(link.in.status().peer(), 0);
}

// The world notices memory that goes before them.
TEST(VerbsLosses, RequestsThatAreNeverCarriedOutEndBeforeTheirMemory) {
  test::FabricOptions options;
  options.retry_s = 60;
  Tuning tuning = test::hasty();
  tuning.close = 0.01;
  World world(options, {}, tuning);
  Link link(world, {4, 4096});
  world.fabric->pull(1);
  ASSERT_FALSE(link.out.reserve().empty());
  link.out.commit(4096, 0);
  world.drop(0);
}

}  // namespace
}  // namespace weft::verbs
