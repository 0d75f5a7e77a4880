#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "kernels/reduce.h"

namespace weft {
namespace {

TEST(CopyTest, EverySizeAndAlignment) {
  constexpr size_t kRoom = 70'000;
  std::vector<unsigned char> from(kRoom), to(kRoom);
  for (size_t i = 0; i < kRoom; ++i) from[i] = static_cast<unsigned char>(i * 131 + i / 251 + 1);
  for (bool streaming : {false, true}) {
    for (size_t bytes :
         {0, 1, 63, 64, 65, 2047, 2048, 2049, 2300, 4095, 4096, 4097, 4160, 65'536 + 17}) {
      for (size_t offset : {0, 1, 16, 63}) {
        for (size_t shift : {0, 5}) {
          std::fill(to.begin(), to.end(), 0);
          copy_bytes(to.data() + offset, from.data() + shift, bytes, streaming);
          std::vector<unsigned char> want(kRoom);
          std::copy_n(from.begin() + shift, bytes, want.begin() + offset);
          ASSERT_EQ(to, want) << bytes << " bytes at " << offset;
        }
      }
    }
  }
}

TEST(CopyTest, NothingFromNowhere) { copy_bytes(nullptr, nullptr, 0, true); }

}  // namespace
}  // namespace weft
