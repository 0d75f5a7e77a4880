#include "bench/data.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include "bench/formats.h"
#include "kernels/reduce.h"

namespace weft::bench {
namespace {

using Elements = std::vector<std::byte>;

constexpr size_t kCount = 131;

std::string label(const Recipe& recipe) {
  return std::string(name(recipe.type)) + " " + std::string(name(*recipe.op)) + " ranks " +
         std::to_string(recipe.ranks);
}

// Two operands at a time, rounding to the element type after each: the least careful way there is.
Elements folded(const Recipe& recipe, const std::vector<Elements>& inputs,
                const std::vector<size_t>& order) {
  const ReduceKernel kernel = reduce_kernel(*recipe.op, recipe.type);
  Elements sum = inputs[order[0]];
  for (size_t i = 1; i < order.size(); ++i) {
    const void* sources[] = {sum.data(), inputs[order[i]].data()};
    void* target = sum.data();
    ReduceCall call;
    call.sources = sources;
    call.source_count = 2;
    call.targets = &target;
    call.target_count = 1;
    call.count = kCount;
    if (*recipe.op == ReduceOp::avg && i + 1 == order.size()) call.divisor = recipe.ranks;
    kernel(call);
  }
  return sum;
}

Elements scaled_input(const Recipe& recipe, Rank rank) {
  Elements input(kCount * size_of(recipe.type));
  fill_input(recipe, rank, 0, input);
  if (recipe.op != ReduceOp::premulsum) return input;
  const Elements scalar = scalar_of(recipe, rank);
  const void* source = input.data();
  void* target = input.data();
  ReduceCall call;
  call.sources = &source;
  call.source_count = 1;
  call.targets = &target;
  call.target_count = 1;
  call.count = kCount;
  call.scalar = scalar.data();
  call.scaled = 1;
  reduce_kernel(*recipe.op, recipe.type)(call);
  return input;
}

template <class T>
bool equal_numbers(const Elements& a, const Elements& b) {
  std::vector<T> x(a.size() / sizeof(T)), y(x.size());
  std::memcpy(x.data(), a.data(), a.size());
  std::memcpy(y.data(), b.data(), b.size());
  return x == y;
}

bool equal(const Recipe& recipe, const Elements& a, const Elements& b) {
  if (recipe.type == DataType::complex64) return equal_numbers<float>(a, b);
  if (recipe.type == DataType::complex128) return equal_numbers<double>(a, b);
  return a == b;
}

// What data.h promises: exact, so that no order of operands changes the result.
TEST(Data, ReductionsAreExactInEveryOrder) {
  std::mt19937 random(7);
  for (const int ranks : {1, 2, 3, 4, 5, 8, 12, 17, 33, 200, 300})
    for (int t = 0; t < kDataTypes; ++t)
      for (int o = 0; o < kReduceOps; ++o) {
        const Recipe recipe{static_cast<DataType>(t), static_cast<ReduceOp>(o), ranks, 99u + t};
        if (!defined(*recipe.op, recipe.type)) continue;
        std::vector<Elements> inputs;
        for (Rank rank = 0; rank < ranks; ++rank) inputs.push_back(scaled_input(recipe, rank));
        Elements expected(kCount * size_of(recipe.type));
        fill_expected(recipe, 0, expected);
        std::vector<size_t> order(inputs.size());
        std::iota(order.begin(), order.end(), size_t{0});
        for (int trial = 0; trial < 3; ++trial) {
          EXPECT_TRUE(equal(recipe, folded(recipe, inputs, order), expected)) << label(recipe);
          std::shuffle(order.begin(), order.end(), random);
        }
      }
}

// A check that cannot see a missing or doubled operand would be worth nothing.
TEST(Data, AMissingOrDoubledRankShows) {
  for (const int ranks : {2, 3, 8, 12})
    for (int t = 0; t < kDataTypes; ++t)
      for (int o = 0; o < kReduceOps; ++o) {
        const Recipe recipe{static_cast<DataType>(t), static_cast<ReduceOp>(o), ranks, 5};
        if (!defined(*recipe.op, recipe.type)) continue;
        std::vector<Elements> inputs;
        for (Rank rank = 0; rank < ranks; ++rank) inputs.push_back(scaled_input(recipe, rank));
        Elements expected(kCount * size_of(recipe.type));
        fill_expected(recipe, 0, expected);
        std::vector<size_t> order(inputs.size());
        std::iota(order.begin(), order.end(), size_t{0});
        order.pop_back();
        EXPECT_FALSE(equal(recipe, folded(recipe, inputs, order), expected)) << label(recipe);
        const ReduceOp op = *recipe.op;
        const bool idempotent = op == ReduceOp::min || op == ReduceOp::max ||
                                op == ReduceOp::band || op == ReduceOp::bor;
        if (idempotent) continue;
        order.insert(order.end(), {inputs.size() - 1, inputs.size() - 1});
        EXPECT_FALSE(equal(recipe, folded(recipe, inputs, order), expected)) << label(recipe);
      }
}

TEST(Data, ElementsDependOnPositionRankAndSeedOnly) {
  for (int t = 0; t < kDataTypes; ++t) {
    const Recipe recipe{static_cast<DataType>(t), std::nullopt, 4, 1};
    const size_t size = size_of(recipe.type);
    Elements whole(64 * size), part(16 * size);
    fill_input(recipe, 2, 0, whole);
    fill_input(recipe, 2, 40, part);
    EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 40 * size));
    fill_input(recipe, 3, 40, part);
    EXPECT_FALSE(std::equal(part.begin(), part.end(), whole.begin() + 40 * size));
    Recipe other = recipe;
    other.seed = 2;
    fill_input(other, 2, 40, part);
    EXPECT_FALSE(std::equal(part.begin(), part.end(), whole.begin() + 40 * size));
  }
}

TEST(Data, ExpectedIsByElementToo) {
  for (int t = 0; t < kDataTypes; ++t) {
    const auto type = static_cast<DataType>(t);
    const Recipe recipe{type, defined(ReduceOp::sum, type) ? ReduceOp::sum : ReduceOp::bxor, 3, 1};
    const size_t size = size_of(type);
    Elements whole(64 * size), part(16 * size);
    fill_expected(recipe, 0, whole);
    fill_expected(recipe, 40, part);
    EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 40 * size));
  }
}

TEST(Data, InexactInputsNeedRounding) {
  const Recipe recipe{DataType::float32, ReduceOp::sum, 3, 1, true};
  std::vector<float> a(100), b(100), c(100);
  fill_input(recipe, 0, 0, std::as_writable_bytes(std::span(a)));
  fill_input(recipe, 1, 0, std::as_writable_bytes(std::span(b)));
  fill_input(recipe, 2, 0, std::as_writable_bytes(std::span(c)));
  int different = 0;
  for (size_t i = 0; i < a.size(); ++i) different += (a[i] + b[i]) + c[i] != a[i] + (b[i] + c[i]);
  EXPECT_GT(different, 10);
}

// Known bit patterns.
TEST(Formats, Encode) {
  const FloatFormat half = float_format(DataType::float16);
  EXPECT_EQ(encode(half, 1), 0x3c00u);
  EXPECT_EQ(encode(half, -2), 0xc000u);
  EXPECT_EQ(encode(half, 65504), 0x7bffu);
  EXPECT_EQ(encode(half, 0x1p-24), 0x0001u);
  EXPECT_EQ(encode(half, 0x1.ff8p-15), 0x03ffu);
  EXPECT_EQ(encode(half, 0x1.002p0), 0x3c00u);  // half way: to even
  EXPECT_EQ(encode(half, 0x1.006p0), 0x3c02u);
  EXPECT_EQ(encode(half, 0x1.ffep0), 0x4000u);  // carries into the exponent
  EXPECT_EQ(encode(float_format(DataType::bfloat16), 1.5), 0x3fc0u);
  EXPECT_EQ(encode(float_format(DataType::fp8_e4m3), 448), 0x7eu);
  EXPECT_EQ(encode(float_format(DataType::fp8_e4m3), 0x1p-9), 0x01u);
  EXPECT_EQ(encode(float_format(DataType::fp8_e5m2), -57344), 0xfbu);
  EXPECT_EQ(encode(float_format(DataType::float32), 1), 0x3f800000u);
  EXPECT_EQ(encode(float_format(DataType::float64), 0.5), 0x3fe0000000000000u);
}

}  // namespace
}  // namespace weft::bench
