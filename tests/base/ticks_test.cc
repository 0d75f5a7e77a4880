#include "base/ticks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace weft {
namespace {

#if defined(__SSE2__)
struct alignas(16) Block {
  char bytes[16];
};

// Past the caches, so that they are under way for long.
void store(std::vector<Block>& memory) {
  for (Block& each : memory)
    _mm_stream_si128(reinterpret_cast<__m128i*>(each.bytes), _mm_set1_epi8(1));
}

// What is left to wait for after `clock` has said when the stores ended: a median.
template <class Clock>
uint64_t left_after(Clock clock) {
  std::vector<Block> memory((16 << 10) / sizeof(Block));
  std::vector<uint64_t> left(201);
  for (uint64_t& each : left) {
    store(memory);
    const uint64_t ended = clock();
    each = ticks_after_stores() - ended;
  }
  std::nth_element(left.begin(), left.begin() + 100, left.end());
  return left[100];
}

TEST(Ticks, AfterStoresAreThoseWhenOthersSeeThem) {
  EXPECT_LT(2 * left_after(ticks_after_stores), left_after(ticks));
}
#endif

// By a counter of 2 GHz, and a clock that is set forwards or back by a minute.
TEST(Ticks, AreToldRightlyWhereTheTimeOfDayIsSet) {
  constexpr int64_t kSecond = 1'000'000'000, kBegun = 1'700'000'000 * kSecond;
  const TickDial::Moment first{1000, 5 * kSecond, kBegun};
  for (const int64_t set_by : {int64_t{0}, 60 * kSecond, -60 * kSecond}) {
    const TickDial::Moment last{1000 + 20 * uint64_t{kSecond}, 15 * kSecond,
                                kBegun + 10 * kSecond + set_by};
    for (const int64_t ago : {int64_t{0}, kSecond, 10 * kSecond}) {
      const uint64_t at = last.ticks - 2 * static_cast<uint64_t>(ago);
      EXPECT_EQ(TickDial::unix_ns(first, last, at), last.unix_ns - ago);
    }
    EXPECT_EQ(TickDial::unix_ns(first, first, first.ticks), kBegun);
  }
}

TEST(Ticks, GoOn) {
  const uint64_t before = ticks();
  EXPECT_GE(ticks_after_stores(), before);
}

}  // namespace
}  // namespace weft
