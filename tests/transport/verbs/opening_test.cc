// Links that cannot be opened, over a fabric in memory: both ranks learn of it, and why.
#include <gtest/gtest.h>

#include <cerrno>

#include "tests/support/contains.h"
#include "tests/transport/verbs/world.h"

namespace weft::verbs {
namespace {

using test::Fabric;
using test::FabricOptions;
using test::Link;
using test::World;

void expect_text(const Status& status, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_TRUE(weft::test::contains(status, part)) << part << " in: " << status.to_string();
}

// What both ends say once they have ended; the fault is that of one of them.
void expect_both_to_tell(World& world, const SendLink& out, const RecvLink& in,
                         const std::vector<std::string>& parts) {
  ASSERT_TRUE(world.until([&] { return !out.status().ok() && !in.status().ok(); }))
      << out.status().to_string() << "; " << in.status().to_string();
  for (const Status& status : {out.status(), in.status()}) {
    EXPECT_EQ(status.code(), Code::system);
    expect_text(status, parts);
  }
  EXPECT_EQ(out.status().peer(), in.status().peer()) << "both know whose end it is";
}

struct Failing {
  const char* call;
  int times;
};

void fail(const Failing& failing) {
  World world;
  const SendLink& out = world[0].open_send(1, 1, {2, 64});
  world.fabric->fail_call(failing.call, ENOMEM, 1, failing.times);
  const RecvLink& in = world[1].open_recv(0, 1, {2, 64});
  const std::string call = failing.call;
  expect_both_to_tell(world, out, in,
                      {"ibv_" + call.substr(0, call.find(' ')), "port 1", "link 1"});
  if (call.starts_with("create") || call == "reg_mr") expect_text(out.status(), {"ulimit -l"});
  EXPECT_TRUE(world[0].peer_status(1).ok()) << "other links go on";
}

TEST(VerbsOpening, EveryCallThatFailsEndsTheLinkOnBothRanks) {
  // Queue pairs are tried with fewer requests, too.
  for (const Failing& failing :
       {Failing{"create_cq", 1}, Failing{"create_qp", 1000}, Failing{"reg_mr", 1},
        Failing{"reg_mr", 1000}, Failing{"post_recv", 1}, Failing{"modify_qp INIT", 1},
        Failing{"modify_qp RTR", 1}, Failing{"modify_qp RTS", 1}}) {
    SCOPED_TRACE(failing.call);
    fail(failing);
    if (HasFatalFailure()) return;
  }
}

TEST(VerbsOpening, WhoOpensLaterIsToldToo) {
  for (const bool sender_fails : {false, true}) {
    World world;
    Link other(world, {2, 64}, 0, 2);
    const auto out = [&]() -> SendLink& { return world[0].open_send(1, 1, {2, 64}); };
    const auto in = [&]() -> RecvLink& { return world[1].open_recv(0, 1, {2, 64}); };
    world.fabric->fail_call("reg_mr", ENOMEM);
    EXPECT_FALSE((sender_fails ? out().status() : in().status()).ok());
    const Deadline heard = Deadline::after(0.05);
    world.until([&] { return heard.expired(); });
    expect_both_to_tell(world, out(), in(), {"ibv_reg_mr", "ulimit -l"});
    EXPECT_EQ(out().status().peer(), sender_fails ? 0 : 1);
    other.out.commit(8, 1);
    EXPECT_TRUE(world.until([&] { return other.in.peek() != nullptr; })) << "it goes on";
  }
}

// As `auto` goes on with tcp then.
TEST(VerbsOpening, WhereLinksMemoryCannotBeRegisteredThereIsNoTransport) {
  const auto fabric = std::make_shared<Fabric>(test::one_thread());
  fabric->fail_call("reg_mr", ENOMEM);
  const Status status = make_verbs(test::config_of(0), fabric->host(0), {}).status();
  EXPECT_EQ(status.code(), Code::unsupported);
  expect_text(status, {"ibv_reg_mr", "ulimit -l", "port 1"});
  EXPECT_EQ(fabric->regions(), 0u);
  const auto made = make_verbs(test::config_of(0), fabric->host(0), {});
  EXPECT_TRUE(made.ok()) << made.status().to_string();
  EXPECT_EQ(fabric->regions(), 0u) << "what was tried is given back";
}

TEST(VerbsOpening, SlotsThatThePortCannotSendAreRefused) {
  FabricOptions options;
  options.max_message_bytes = 8192;
  World world(options);
  const SendLink& out = world[0].open_send(1, 1, {2, 8192});
  const RecvLink& in = world[1].open_recv(0, 1, {2, 8192});
  for (const Status& status : {out.status(), in.status()})
    expect_text(status, {"WEFT_SLOT", "8192", "port 1", "link 1"});
  const Link shorter(world, {2, 8192 - 64}, 0, 2);
  EXPECT_TRUE(shorter.out.status().ok());
}

}  // namespace
}  // namespace weft::verbs
