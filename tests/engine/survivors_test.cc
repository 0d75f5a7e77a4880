// What survivors tell each other, right and wrong, old and new. (More of their meetings:
// shrink_test.)
#include "engine/survivors.h"

#include <gtest/gtest.h>

#include <functional>
#include <utility>
#include <vector>

#include "tests/support/sim_media.h"

namespace weft {
namespace {

enum Kind : uint8_t { kJoin = 1, kGo, kPart, kAll, kAgain, kOther, kLeave };

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

// As that of a communicator that was shrunk from a shrunk one, tens of thousands of times.
TEST(Survivors, OfMoreShrinksThanCanBeNamedAreRefused) {
  test::SimMedia media(2);
  const std::string longest(TextLine::bytes_max(2), 'a');
  for (const Rank rank : {0, 1}) {
    Reunion reunion(media.of(rank));
    Survivors survivors(reunion, {0, 1}, longest + "/", 1, [&] { return media.step(), Status(); });
    const Status status = survivors.meet();
    EXPECT_EQ(status.code(), Code::unsupported) << status.to_string();
    EXPECT_TRUE(status.message().starts_with("this communicator was shrunk")) << status.to_string();
    survivors.leave();
  }
  Reunion reunion(media.of(1));
  Survivors survivors(reunion, {0, 1}, longest, 0.1, [&] { return media.step(), Status(); });
  EXPECT_EQ(survivors.meet().code(), Code::timeout) << "this can be said";
}

// Rank 0, which is tested, and a rank 1 that answers as it is told to.
struct Leader {
  using Answer = std::function<void(TextLine&, const TextLine::Text&)>;
  explicit Leader(Answer with) : answer(std::move(with)) {}
  Deadline soon() { return Deadline::after(10, media.clock()); }

  test::SimMedia media{2};
  Reunion reunion{media.of(0)};
  TextLine peer{media.of(1), 0};
  Answer answer;
  Survivors survivors{reunion, {0, 1}, "a/", 10, [this] {
                        media.step();
                        while (const auto text = peer.receive()) answer(peer, *text);
                        return Status();
                      }};
};

// Rank 1 has given up after it joined, and shrinks again: its first join's part is none of this
// meeting, and neither side takes the other's old words for new ones.
TEST(Survivors, WhoJoinsAgainMeetsAnew) {
  Leader leader([](TextLine& peer, const TextLine::Text& text) {
    if (text.kind != kGo) return;
    if (text.attempt == 1) return peer.send({kJoin, 2, "a/"});
    peer.send({kPart, 1, "old"});
    peer.send({kLeave, 1, ""});
    peer.send({kPart, text.attempt, "new"});
  });
  leader.peer.send({kJoin, 1, "a/"});
  ASSERT_TRUE(leader.survivors.meet().ok());
  EXPECT_FALSE(leader.survivors.all_gather("mine", leader.soon()).ok());
  ASSERT_TRUE(leader.survivors.broken());
  ASSERT_TRUE(leader.survivors.meet().ok());
  const auto all = leader.survivors.all_gather("mine", leader.soon());
  ASSERT_TRUE(all.ok()) << all.status().to_string();
  EXPECT_EQ(*all, (std::vector<std::string>{"mine", "new"}));
}

TEST(Survivors, WhoGivesUpIsLeftOut) {
  Leader leader([](TextLine& peer, const TextLine::Text& text) {
    if (text.kind == kGo) peer.send({kLeave, text.attempt, ""});
  });
  leader.peer.send({kJoin, 7, "a/"});
  ASSERT_TRUE(leader.survivors.meet().ok());
  const auto all = leader.survivors.all_gather("mine", leader.soon());
  ASSERT_FALSE(all.ok());
  EXPECT_NE(all.status().message().find("rank 1 gave up"), std::string::npos);
  ASSERT_TRUE(leader.survivors.broken());
  ASSERT_TRUE(leader.survivors.meet().ok());
  EXPECT_EQ(leader.survivors.members(), std::vector<Rank>{0});
}

// Rank 1 is tested. The leader's answer to a join that it has taken back is not one to the next.
TEST(Survivors, AnAnswerToAnEarlierJoinIsNone) {
  test::SimMedia media(2);
  TextLine leader(media.of(0), 1);
  std::vector<std::pair<int, uint32_t>> heard;
  bool gives_up = true;
  const auto meanwhile = [&] {
    media.step();
    while (const auto text = leader.receive()) {
      heard.emplace_back(text->kind, text->attempt);
      if (text->kind == kJoin && text->attempt == 2) leader.send({kGo, 2, "[0,1]"});
      if (text->kind == kPart) leader.send({kAll, text->attempt, R"(["a","b"])"});
    }
    return gives_up && !heard.empty() ? Status(Code::aborted, "enough") : Status();
  };
  Reunion reunion(media.of(1));
  {
    Survivors survivors(reunion, {0, 1}, "a/", 10, meanwhile);
    EXPECT_EQ(survivors.meet().code(), Code::aborted);
    survivors.leave();
  }
  gives_up = false;
  leader.send({kGo, 1, "[1]"});
  leader.send({kOther, 1, "0"});
  leader.send({kLeave, 1, ""});
  Survivors survivors(reunion, {0, 1}, "a/", 10, meanwhile);
  ASSERT_TRUE(survivors.meet().ok());
  EXPECT_EQ(survivors.members(), (std::vector<Rank>{0, 1}));
  EXPECT_TRUE(survivors.all_gather("b", Deadline::after(10, media.clock())).ok());
  const std::vector<std::pair<int, uint32_t>> expected{
      {kJoin, 1}, {kLeave, 1}, {kJoin, 2}, {kPart, 2}};
  EXPECT_EQ(heard, expected);
}

}  // namespace
}  // namespace weft
