// Texts between two ranks, and what a peer may send in their place.
#include "engine/text_line.h"

#include <gtest/gtest.h>

#include "base/text.h"
#include "tests/support/sim_media.h"

namespace weft::test {
namespace {

using Text = TextLine::Text;

class TextLines : public testing::Test {
 protected:
  // The next one that rank 0 gets of rank 1; nullopt where none comes within a second.
  std::optional<Text> next() {
    const Deadline deadline = Deadline::after(1, media_.clock());
    while (!deadline.expired() && line_.status().ok()) {
      if (auto text = line_.receive()) return text;
      media_.step();
    }
    return std::nullopt;
  }

  // A part of a text as rank 1 might send it.
  void send(uint64_t tag, size_t bytes) {
    while (raw_.reserve().empty()) media_.step();
    raw_.commit(bytes, tag);
  }

  void expect_refused(std::string_view words) {
    EXPECT_FALSE(next());
    EXPECT_FALSE(line_.receive());
    EXPECT_EQ(line_.status().code(), Code::mismatch);
    EXPECT_EQ(line_.status().peer(), 1);
    EXPECT_TRUE(line_.status().message().starts_with("rank 1 sent ")) << line_.status().message();
    EXPECT_NE(line_.status().message().find(words), std::string_view::npos)
        << line_.status().message();
  }

  static constexpr uint64_t kKind = uint64_t{3} << 56;
  SimMedia media_{2};
  TextLine line_{media_.of(0), 1};
  SendLink& raw_ = media_.of(1).route(0)->open_send(0, ~LinkId{0}, {4, 16 << 10});
};

TEST_F(TextLines, ComeAsTheyWent) {
  TextLine peer(media_.of(1), 0);
  for (const size_t bytes :
       {size_t{0}, size_t{1}, size_t{16 << 10}, size_t{(16 << 10) + 1}, TextLine::bytes_max(2)}) {
    const std::string text(bytes, static_cast<char>('a' + bytes % 7));
    peer.send({7, (1u << 24) - 1, text});
    std::optional<Text> got;
    while (!got && line_.status().ok()) {
      (void)peer.flushed();
      media_.step();
      got = line_.receive();
    }
    ASSERT_TRUE(got) << line_.status().to_string();
    EXPECT_EQ(got->kind, 7);
    EXPECT_EQ(got->attempt, (1u << 24) - 1);
    EXPECT_TRUE(got->text == text) << bytes;
  }
}

TEST_F(TextLines, HoldAMeetingOfAllRanks) {
  const std::string part(TextLine::kPartBytesMax, '\1');  // as JSON six times as long
  for (const int ranks : {1, 2, 1000})
    EXPECT_GE(TextLine::bytes_max(ranks), static_cast<size_t>(ranks) * (6 * part.size() + 3) + 1);
  EXPECT_EQ(TextLine::bytes_max(1 << 20), 0xffffffffu);
}

TEST_F(TextLines, LongerThanAnyAreRefused) {
  send(kKind | (TextLine::bytes_max(2) + 1), 16 << 10);
  expect_refused(concat("of a text of ", TextLine::bytes_max(2) + 1));
}

TEST_F(TextLines, PartsOfOthersAreRefused) {
  send(kKind | 20'000, 16 << 10);
  send(kKind | 20'001, 100);
  expect_refused("sent 100 bytes of a text of 20001 behind 16384 of one");
}

TEST_F(TextLines, MoreThanAnnouncedIsRefused) {
  send(kKind | 20'000, 16 << 10);
  send(kKind | 20'000, 3617);
  expect_refused("sent 3617 bytes of a text of 20000 behind 16384 of one");
}

// Who sends them again and again would never let the receiver go.
TEST_F(TextLines, NothingOfSomethingIsRefused) {
  send(kKind | 5, 0);
  expect_refused("sent 0 bytes of a text of 5");
}

}  // namespace
}  // namespace weft::test
