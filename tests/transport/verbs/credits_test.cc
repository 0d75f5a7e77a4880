// Credits that ride in the headers of messages, whatever a header says.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/transport/verbs/world.h"
#include "transport/verbs/immediate.h"
#include "transport/verbs/link.h"

namespace weft::verbs {
namespace {

using test::Link;
using test::World;

// Links of four slots: of rank 0's four messages two have been released, and it has heard so.
class VerbsCredits : public testing::Test {
 protected:
  void SetUp() override {
    for (uint64_t i = 0; i < 4; ++i) send(there);
    for (int i = 0; i < 2; ++i) {
      ASSERT_TRUE(world.until([&] { return there.in.peek() != nullptr; }));
      there.in.release();
    }
    ASSERT_TRUE(world.until([&] { return !there.out.reserve().empty(); }));
  }

  static void send(Link& link) {
    ASSERT_FALSE(link.out.reserve().empty());
    link.out.commit(8, 0);
  }

  // A message to rank 0 arrives, and its header gives credits for so many messages of this link.
  void give(LinkId credited, uint64_t credits) {
    world.fabric->change_next(1, [=](std::vector<std::byte>& data) {
      MessageHeader header;
      std::memcpy(&header, data.data(), sizeof header);
      header.credited = credited;
      header.credit = immediate(kCredit, credits);
      std::memcpy(data.data(), &header, sizeof header);
    });
    send(back);
    ASSERT_TRUE(world.until([&] { return back.in.peek() != nullptr; }));
  }

  World world;
  Link there{world, {4, 64}}, back{world, {4, 64}, 1, 2};
};

TEST_F(VerbsCredits, OnesThatAGreaterHasOvertakenChangeNothing) {
  give(1, 1);
  for (int i = 0; i < 2; ++i) send(there);
  EXPECT_TRUE(there.out.reserve().empty());
}

TEST_F(VerbsCredits, OnesForMessagesThatWereNotSentEndTheLink) {
  give(1, 5);
  EXPECT_EQ(there.out.status().code(), Code::internal) << there.out.status().to_string();
  EXPECT_NE(there.out.status().message().find("5 messages of link 1, of which 4"),
            std::string_view::npos)
      << there.out.status().to_string();
  EXPECT_TRUE(world[0].peer_status(1).ok());
}

TEST_F(VerbsCredits, OnesForALinkThatIsNotOpenEndTheWayToThePeer) {
  give(99, 1);
  const Status status = world[0].peer_status(1);
  EXPECT_EQ(status.code(), Code::peer_lost);
  EXPECT_NE(status.message().find("link 99"), std::string_view::npos) << status.to_string();
  ASSERT_TRUE(world.until([&] { return !world[1].peer_status(0).ok(); })) << "it is told";
}

}  // namespace
}  // namespace weft::verbs
