// A hint, and no more than that.
#include "base/hand_over.h"

#include <gtest/gtest.h>

#include <vector>

namespace weft {
namespace {

TEST(HandOver, ChangesNothing) {
  std::vector<unsigned char> memory(3000, 7);
  for (size_t offset : {0, 1, 63})
    for (size_t bytes : {0, 1, 64, 65, 2048}) hand_over(memory.data() + offset, bytes);
  EXPECT_EQ(memory, std::vector<unsigned char>(3000, 7));
  hand_over(nullptr, 0);
}

}  // namespace
}  // namespace weft
