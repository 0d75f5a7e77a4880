#include "base/text.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/name_filter.h"

namespace weft {
namespace {

std::vector<std::string> words(std::string_view text, char separator) {
  std::vector<std::string> taken;
  while (!text.empty()) taken.emplace_back(take_word(text, separator));
  return taken;
}

TEST(Text, IsMadeOfParts) {
  EXPECT_EQ(concat("rank ", 3, std::string(" of "), size_t{8}, std::string_view("!")),
            "rank 3 of 8!");
  EXPECT_EQ(concat(), "");
  EXPECT_EQ(rank_list(std::vector{1}), "rank 1");
  EXPECT_EQ(rank_list(std::vector{0, 1, 2}), "ranks 0, 1 and 2");
  EXPECT_EQ(rank_list(std::vector{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}),
            "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 2 more");
}

TEST(Text, GivesItsWordsBack) {
  EXPECT_EQ(words("a bc  d", ' '), (std::vector<std::string>{"a", "bc", "", "d"}));
  EXPECT_EQ(words("a,", ','), std::vector<std::string>{"a"});
  EXPECT_EQ(words("", ','), std::vector<std::string>{});
  std::string_view none;
  EXPECT_EQ(take_word(none, ' '), "");
}

TEST(Text, BytesAreTwoDigits) {
  EXPECT_EQ(hex(bytes_of(std::string_view("\x00\x7f\xff!", 4))), "007fff21");
  EXPECT_EQ(hex({}), "");
}

TEST(NameFilter, TakesNamesThatBeginSo) {
  const NameFilter filter("eth,ib");
  EXPECT_TRUE(filter.accepts("eth0"));
  EXPECT_TRUE(filter.accepts("ib"));
  EXPECT_FALSE(filter.accepts("lo"));
}

TEST(NameFilter, SignsHoldForTheWholeList) {
  const NameFilter exact("=eth0,=eth1,eth2");
  EXPECT_TRUE(exact.accepts("eth1"));
  EXPECT_TRUE(exact.accepts("eth2"));
  EXPECT_FALSE(exact.accepts("eth10"));
  const NameFilter others("^docker,virbr");
  EXPECT_TRUE(others.accepts("eth0"));
  EXPECT_FALSE(others.accepts("virbr0"));
  const NameFilter both("^=eth0");
  EXPECT_TRUE(both.accepts("eth01"));
  EXPECT_FALSE(both.accepts("eth0"));
}

TEST(NameFilter, EmptyWordsNameNothing) {
  EXPECT_FALSE(NameFilter("eth,,ib").accepts("lo"));
  EXPECT_TRUE(NameFilter("").empty());
  EXPECT_FALSE(NameFilter("^").empty());
  EXPECT_TRUE(NameFilter("^").accepts("lo"));
  EXPECT_FALSE(NameFilter("=").accepts("lo"));
}

}  // namespace
}  // namespace weft
