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

TEST(Ticks, GoOn) {
  const uint64_t before = ticks();
  EXPECT_GE(ticks_after_stores(), before);
}

}  // namespace
}  // namespace weft
