// Hashes of names, which ranks compare, and names that nobody else has.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "base/hash.h"
#include "base/random.h"

namespace weft {
namespace {

// From the published test vectors of FNV-1a, 64 bits.
TEST(HashOf, IsFnv1a) {
  EXPECT_EQ(hash_of(""), 0xcbf29ce484222325u);
  EXPECT_EQ(hash_of("a"), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(hash_of("foobar"), 0x85944171f73967e8u);
}

TEST(RandomName, IsHexadecimalAndNeverTheSame) {
  std::set<std::string> names;
  for (int i = 0; i < 1000; ++i) {
    const std::string name = random_name();
    EXPECT_EQ(name.size(), 32u);
    EXPECT_TRUE(is_random_name(name));
    EXPECT_TRUE(std::all_of(name.begin(), name.end(),
                            [](unsigned char c) { return std::isxdigit(c) && !std::isupper(c); }));
    names.insert(name);
  }
  EXPECT_EQ(names.size(), 1000u);
}

TEST(RandomName, IsToldFromOthers) {
  for (const std::string& text : {std::string(), std::string(31, 'a'), std::string(33, 'a'),
                                  std::string(32, 'g'), std::string(32, 'A'), std::string(32, '/')})
    EXPECT_FALSE(is_random_name(text)) << text;
}

}  // namespace
}  // namespace weft
