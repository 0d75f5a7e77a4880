#include "fabric/strided_copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string_view>

namespace weft {
namespace {

using Sizes = std::vector<int64_t>;

// A box that lies in some order of its dimensions, with gaps, or backwards.
struct Place {
  Sizes strides;
  int64_t first = 0, elements = 0;
};
Place random_place(const Sizes& shape, std::mt19937& random) {
  std::vector<size_t> order(shape.size());
  for (size_t d = 0; d < order.size(); ++d) order[d] = d;
  if (random() % 2) std::shuffle(order.begin(), order.end(), random);
  Place place{Sizes(shape.size()), 0, 1};
  for (size_t i = order.size(); i-- > 0;) {
    const size_t d = order[i];
    const int64_t stride = place.elements * (1 + (random() % 3 == 0));
    const bool backwards = random() % 5 == 0;
    place.strides[d] = backwards ? -stride : stride;
    if (backwards) place.first += stride * (shape[d] - 1);
    place.elements = stride * shape[d];
  }
  return place;
}

int64_t offset(const Place& place, const Sizes& at) {
  int64_t sum = place.first;
  for (size_t d = 0; d < at.size(); ++d) sum += place.strides[d] * at[d];
  return sum;
}

// The next one in `shape`; false behind the last.
bool advance(Sizes& at, const Sizes& shape) {
  for (size_t d = shape.size(); d-- > 0;) {
    if (++at[d] < shape[d]) return true;
    at[d] = 0;
  }
  return false;
}

void check(const Sizes& shape, size_t bytes, std::mt19937& random) {
  const Place from = random_place(shape, random), to = random_place(shape, random);
  std::vector<std::byte> source(static_cast<size_t>(from.elements) * bytes);
  for (std::byte& b : source) b = static_cast<std::byte>(random());
  std::vector<std::byte> target(static_cast<size_t>(to.elements) * bytes, std::byte{0xa5});
  std::vector<std::byte> want = target;
  Sizes at(shape.size());
  do {
    const auto element = static_cast<int64_t>(bytes);
    std::copy_n(source.begin() + offset(from, at) * element, bytes,
                want.begin() + offset(to, at) * element);
  } while (advance(at, shape));
  strided_copy(target.data() + to.first * static_cast<int64_t>(bytes), to.strides,
               source.data() + from.first * static_cast<int64_t>(bytes), from.strides, shape,
               bytes);
  EXPECT_EQ(target, want) << testing::PrintToString(shape) << ", elements of " << bytes;
}

TEST(StridedCopy, MovesEveryElementToItsPlaceAndNothingElse) {
  std::mt19937 random(5);
  for (int i = 0; i < 2000; ++i) {
    Sizes shape(random() % 5);
    for (int64_t& size : shape) size = 1 + random() % 5;
    for (const size_t bytes : {1, 2, 3, 4, 8, 16}) check(shape, bytes, random);
  }
}

TEST(StridedCopy, CopiesNothingOfEmptyBoxes) {
  std::byte from{1}, to{2};
  strided_copy(&to, {0, 1}, &from, {0, 1}, {3, 0}, 1);
  strided_copy(&to, {1, 1}, &from, {2, 1}, {0, 3}, 1);
  EXPECT_EQ(to, std::byte{2});
}

TEST(StridedCopy, ReadsAnElementAgainWhereAStrideIsNought) {
  const char from = 'x';
  char to[4] = {};
  strided_copy(reinterpret_cast<std::byte*>(to), {2, 1}, reinterpret_cast<const std::byte*>(&from),
               {0, 0}, {2, 2}, 1);
  EXPECT_EQ(std::string_view(to, 4), "xxxx");
}

}  // namespace
}  // namespace weft
