#include "kernels/copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "kernels/isa.h"

namespace weft {
namespace {

constexpr CopyWay kWays[] = {CopyWay::own, CopyWay::shared, CopyWay::taken, CopyWay::streamed};

class CopyTest : public testing::Test {
 protected:
  static constexpr size_t kRoom = 70'000;
  CopyTest() : from_(kRoom), to_(kRoom) {
    for (size_t i = 0; i < kRoom; ++i) from_[i] = static_cast<unsigned char>(i * 131 + i / 251 + 1);
  }

  // copy(to, from, bytes) for every size and alignment: all bytes, and nothing beside them.
  template <class Copy>
  void check(const Copy& copy) {
    for (size_t bytes : {0,    1,    2,    3,    4,    5,    7,    8,    9,          15,
                         16,   17,   63,   64,   65,   1023, 1024, 1025, 1087,       1088,
                         2047, 2048, 2049, 2300, 4095, 4096, 4097, 4160, 65'536 + 17}) {
      for (size_t offset : {0, 1, 16, 63}) {
        for (size_t shift : {0, 5}) {
          std::fill(to_.begin(), to_.end(), 0);
          copy(to_.data() + offset, from_.data() + shift, bytes);
          std::vector<unsigned char> want(kRoom);
          std::copy_n(from_.begin() + shift, bytes, want.begin() + offset);
          ASSERT_EQ(to_, want) << bytes << " bytes at " << offset;
        }
      }
    }
  }

 private:
  std::vector<unsigned char> from_, to_;
};

TEST_F(CopyTest, EverySizeAndAlignment) {
  for (CopyWay way : kWays)
    check([&](void* to, const void* from, size_t bytes) { copy_bytes(to, from, bytes, way); });
}

TEST_F(CopyTest, OfEachInstructionSet) {
  for (Isa isa : {Isa::portable, Isa::avx2, Isa::avx512, Isa::neon}) {
    if (!available(isa)) continue;
    for (CopyWay way : kWays)
      check(
          [&](void* to, const void* from, size_t bytes) { copy_bytes(to, from, bytes, way, isa); });
  }
}

#if defined(__x86_64__)
TEST(CopyLoops, ClaimWhatStaysOnIntelsCpusOnly) {
  for (const Isa isa : {Isa::avx2, Isa::avx512}) {
    if (!available(isa)) continue;
    EXPECT_EQ(copy_loops(isa, true).taken, copy_loops(isa, true).shared);
    EXPECT_NE(copy_loops(isa, false).taken, copy_loops(isa, false).shared);
    EXPECT_FALSE(copy_loops(isa, false).own_by_library);
  }
}
#endif

TEST_F(CopyTest, NothingFromNowhere) {
  for (CopyWay way : kWays) copy_bytes(nullptr, nullptr, 0, way);
}

}  // namespace
}  // namespace weft
