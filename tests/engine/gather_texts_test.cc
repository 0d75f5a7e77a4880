// Texts of all ranks, where what peers announce may be anything.
#include "engine/gather_texts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

namespace weft {
namespace {

// Ranks that announce `lengths`, and whose texts are all letters x.
struct Peers {
  std::vector<uint64_t> lengths;
  int calls = 0;

  Result<std::vector<std::string>> gather() {
    const RunCall run = [this](const Call& call) {
      ++calls;
      if (call.varying)
        std::fill_n(static_cast<char*>(call.output), total(call.counts), 'x');
      else
        std::memcpy(call.output, lengths.data(), lengths.size() * sizeof lengths[0]);
      return Status();
    };
    return gather_texts(static_cast<int>(lengths.size()), run, "mine");
  }
  static size_t total(std::span<const size_t> counts) {
    size_t sum = 0;
    for (const size_t count : counts) sum += count;
    return sum;
  }
};

TEST(GatherTexts, CutsThemByRank) {
  Peers peers{{2, 0, 3}};
  const auto texts = peers.gather();
  ASSERT_TRUE(texts.ok()) << texts.status().to_string();
  EXPECT_EQ(*texts, (std::vector<std::string>{"xx", "", "xxx"}));
  EXPECT_EQ(peers.calls, 2);
}

TEST(GatherTexts, NamesTheRankWhoseLengthCannotBe) {
  for (const uint64_t length :
       {uint64_t{kTextBytesMax} + 1, uint64_t{1} << 63, ~uint64_t{0}, ~uint64_t{0} - 7}) {
    Peers peers{{8, 8, length, 8}};
    const auto texts = peers.gather();
    ASSERT_FALSE(texts.ok());
    EXPECT_EQ(texts.status().peer(), 2);
    EXPECT_TRUE(texts.status().message().starts_with("rank 2 announces a text of "))
        << texts.status().to_string();
    EXPECT_EQ(peers.calls, 1);
  }
}

TEST(GatherTexts, BoundsTheSum) {
  Peers peers{std::vector<uint64_t>(kTextsBytesMax / kTextBytesMax + 1, kTextBytesMax)};
  const auto texts = peers.gather();
  ASSERT_FALSE(texts.ok());
  EXPECT_NE(texts.status().message().find("all texts together"), std::string_view::npos)
      << texts.status().to_string();
}

}  // namespace
}  // namespace weft
