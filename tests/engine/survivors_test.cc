// What the leader of survivors tells, right and wrong. (Their meetings are shrink_test's.)
#include "engine/survivors.h"

#include <gtest/gtest.h>

#include "tests/support/sim_media.h"

namespace weft {
namespace {

TEST(Survivors, AreRanksThatAreThere) {
  const auto read = survivors_from("[4,0,2]", 5, 0);
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ(*read, (std::vector<Rank>{4, 0, 2}));
  EXPECT_TRUE(survivors_from("[]", 5, 0).ok());
}

TEST(Survivors, OtherListsAreRefusedAndTheLeaderNamed) {
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  for (const std::string& text :
       {std::string("[0,5]"), std::string("[-1]"), std::string("[1,1]"),
        std::string("[4294967296]"), std::string("[18446744073709551615]"), std::string("[1.0]"),
        std::string("[\"1\"]"), std::string("{\"a\":1}"), std::string("7"), std::string("["),
        std::string(), deep}) {
    const auto read = survivors_from(text, 5, 3);
    ASSERT_FALSE(read.ok()) << text.substr(0, 30);
    EXPECT_EQ(read.status().peer(), 3);
    EXPECT_TRUE(read.status().message().starts_with("rank 3 names survivors"))
        << text.substr(0, 30);
  }
}

TEST(Survivors, HaveOneTextEach) {
  const auto read = survivors_texts_from(R"(["a","[{"])", 2, 0);
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ(*read, (std::vector<std::string>{"a", "[{"}));
  for (const char* text :
       {"[\"a\"]", "[\"a\",1]", "[\"a\",1,\"b\"]", "[\"a\",[\"b\"]]", "\"a\"", "{}", "[", ""}) {
    const auto wrong = survivors_texts_from(text, 2, 3);
    ASSERT_FALSE(wrong.ok()) << text;
    EXPECT_EQ(wrong.status().peer(), 3) << text;
  }
}

// Rank 1 joins, and then contributes more than there can be.
TEST(Survivors, WhoContributesTooMuchIsLost) {
  constexpr uint8_t kJoin = 1, kGo = 2, kPart = 3;
  for (const size_t more : {0, 1}) {
    test::SimMedia media(2);
    TextLine peer(media.of(1), 0);
    peer.send({kJoin, 0, ""});
    const auto meanwhile = [&] {
      media.step();
      while (const auto text = peer.receive())
        if (text->kind == kGo)
          peer.send({kPart, text->attempt, std::string(TextLine::kPartBytesMax + more, 'x')});
      return Status();
    };
    Reunion reunion(media.of(0));
    Survivors survivors(reunion, {0, 1}, "a/", 10, meanwhile);
    ASSERT_TRUE(survivors.meet().ok());
    ASSERT_EQ(survivors.size(), 2);
    const auto all = survivors.all_gather("mine", Deadline::after(10, media.clock()));
    EXPECT_EQ(all.ok(), more == 0) << all.status().to_string();
    if (all.ok()) continue;
    EXPECT_EQ(all.status().peer(), 1);
    EXPECT_TRUE(all.status().message().starts_with("rank 1 contributed 65537 bytes"))
        << all.status().to_string();
  }
}

}  // namespace
}  // namespace weft
