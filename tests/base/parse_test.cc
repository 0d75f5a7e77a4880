#include "base/parse.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "base/text.h"

namespace weft {
namespace {

TEST(ParseSize, ReadsUnits) {
  EXPECT_EQ(*parse_size("0"), 0u);
  EXPECT_EQ(*parse_size("4096"), 4096u);
  EXPECT_EQ(*parse_size("64K"), 65536u);
  EXPECT_EQ(*parse_size("64k"), 65536u);
  EXPECT_EQ(*parse_size("1MiB"), 1048576u);
  EXPECT_EQ(*parse_size("3mb"), 3u * 1048576u);
  EXPECT_EQ(*parse_size("2G"), 2147483648u);
  EXPECT_EQ(*parse_size("1T"), size_t{1} << 40);
  EXPECT_EQ(*parse_size("12B"), 12u);
}

TEST(ParseSize, RefusesWhatIsNoSize) {
  for (const char* text :
       {"", "K", "-1", "1.5K", "64KK", "1Q", " 1", "1 K", "0x10", "1KiBs", "+1"}) {
    const auto size = parse_size(text);
    ASSERT_FALSE(size.ok()) << text;
    EXPECT_EQ(size.status().code(), Code::invalid_argument);
    EXPECT_NE(size.status().message().find(concat("\"", text, "\"")), std::string::npos);
  }
}

TEST(ParseSize, NeverOverflows) {
  EXPECT_EQ(*parse_size(std::to_string(std::numeric_limits<size_t>::max())),
            std::numeric_limits<size_t>::max());
  EXPECT_FALSE(parse_size("18446744073709551616").ok());
  EXPECT_FALSE(parse_size("18014398509481984K").ok());  // 2^64
  EXPECT_TRUE(parse_size("18014398509481983K").ok());
  EXPECT_TRUE(parse_size("1K", 1024).ok());
  EXPECT_FALSE(parse_size("1025", 1024).ok());
  EXPECT_FALSE(parse_size("2K", 1024).ok());
}

TEST(ParseInt, KeepsItsLimits) {
  EXPECT_EQ(*parse_int("-3", -3, 3), -3);
  EXPECT_EQ(*parse_int("3", -3, 3), 3);
  for (const char* text : {"-4", "4", "", "x", "1x", "99999999999999999999"})
    EXPECT_FALSE(parse_int(text, -3, 3).ok()) << text;
  EXPECT_NE(parse_int("7", 0, 5).status().message().find("0 to 5"), std::string::npos);
}

TEST(ParseSeveral, TakesNoSingleOne) {
  for (const int value : {0, 2, 5}) EXPECT_EQ(*parse_several(std::to_string(value), 5), value);
  for (const std::string text : {"1", "-1", "6", "x"}) {
    const Status status = parse_several(text, 5).status();
    EXPECT_NE(status.message().find("0 (choose) or a whole number from 2 to 5."), std::string::npos)
        << text << ": " << status.to_string();
  }
}

TEST(ParseSeconds, TakesFractions) {
  EXPECT_DOUBLE_EQ(*parse_seconds("0.25"), 0.25);
  EXPECT_DOUBLE_EQ(*parse_seconds("300"), 300);
  for (const char* text : {"0", "-1", "nan", "inf", "", "1s", "1e10"})
    EXPECT_FALSE(parse_seconds(text).ok()) << text;
}

TEST(ParseBool, TakesTheUsualWords) {
  for (const char* text : {"1", "true", "yes", "on", "True", "YES"}) EXPECT_TRUE(*parse_bool(text));
  for (const char* text : {"0", "false", "no", "off", "False"}) EXPECT_FALSE(*parse_bool(text));
  for (const char* text : {"", "2", "y", "enabled"}) EXPECT_FALSE(parse_bool(text).ok()) << text;
}

TEST(ParseWord, TakesWhatIsListed) {
  constexpr std::string_view kWords[] = {"auto", "ll"};
  EXPECT_EQ(*parse_word("ll", kWords), "ll");
  for (const char* text : {"", "l", "LL", "auto,ll"})
    EXPECT_FALSE(parse_word(text, kWords).ok()) << text;
  EXPECT_EQ(parse_word("x", kWords).status().message(), "\"x\" is not one of auto, ll.");
}

}  // namespace
}  // namespace weft
