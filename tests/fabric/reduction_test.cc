// What operations mean at the edges: means of integers, booleans of any byte, operations that have
// no meaning.
#include "fabric/reduction.h"

#include <limits>
#include <random>

#include "fabric/gradient_sync.h"
#include "tests/fabric/ranks.h"

namespace weft::test {
namespace {

class Means : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Means, testing::Values(1, 2, 3, 4, 6));

__extension__ using Wide = __int128;

// Near the ends of the type, near zero, and anywhere; the same on all ranks.
template <class T>
std::vector<std::vector<T>> values_by_rank(int ranks) {
  using Limits = std::numeric_limits<T>;
  std::mt19937_64 generator(7);
  const auto one = [&]() -> T {
    const auto near = static_cast<T>(generator() % 4);
    switch (generator() % 4) {
      case 0: return static_cast<T>(Limits::max() - near);
      case 1: return static_cast<T>(Limits::min() + near);
      case 2: return static_cast<T>(near - 2);
      default: return static_cast<T>(generator());
    }
  };
  std::vector<std::vector<T>> values(static_cast<size_t>(ranks));
  for (auto& list : values) {
    for (int i = 0; i < 120; ++i) list.push_back(one());
    list[0] = Limits::max();
    list[1] = Limits::min();
  }
  return values;
}

template <class T>
std::vector<T> means_of(const std::vector<std::vector<T>>& values) {
  std::vector<T> means;
  for (size_t i = 0; i < values[0].size(); ++i) {
    Wide sum = 0;
    for (const auto& list : values) sum += list[i];
    means.push_back(static_cast<T>(sum / static_cast<Wide>(values.size())));
  }
  return means;
}

template <class T>
void expect_means(Fabric& f) {
  const auto values = values_by_rank<T>(f.size());
  const std::vector<T> mine = values[static_cast<size_t>(f.rank())], means = means_of(values);
  EXPECT_EQ(f.all_reduce(mine), means);
  if (const auto at_last = f.reduce(mine, f.size() - 1, ReduceOp::avg)) {
    EXPECT_EQ(*at_last, means);
  }
  const Tensor in_place(mine);
  f.all_reduce_into(in_place);
  EXPECT_EQ(in_place.to_vector<T>(), means);
  EXPECT_EQ(f.all_gather(f.reduce_scatter(Tensor(mine), ReduceOp::avg), Concat{}).to_vector<T>(),
            means);
  const Tensor gradient(mine);
  GradientSync(f, {gradient}).backward([] {});
  EXPECT_EQ(gradient.to_vector<T>(), means);
}

TEST_P(Means, OfIntegersAreExact) {
  on_ranks(GetParam(), [](Fabric& f) {
    expect_means<int8_t>(f);
    expect_means<uint8_t>(f);
    expect_means<int16_t>(f);
    expect_means<uint16_t>(f);
    expect_means<int32_t>(f);
    expect_means<uint32_t>(f);
    expect_means<int64_t>(f);
    expect_means<uint64_t>(f);
  });
}

TEST(Booleans, AnyByteButZeroIsTrue) {
  on_ranks(2, [](Fabric& f) {
    uint8_t bytes[] = {2, 0, 4, 1};
    if (f.rank() == 1) std::swap(bytes[2], bytes[3]);
    const Tensor t = Tensor::view(bytes, DataType::boolean, {4});
    EXPECT_EQ(f.all_reduce(t, ReduceOp::band).to_string(), "[true, false, true, true]");
    EXPECT_EQ(f.all_reduce(t, ReduceOp::bxor).to_vector<bool>(), std::vector<bool>(4, false));
    EXPECT_EQ(bytes[0], 2) << "the input was altered";
    f.all_reduce_into(t, ReduceOp::bor);
    EXPECT_EQ(bytes[0], 1);
  });
}

TEST(Operations, WithoutMeaningNameTheLeafAndARemedy) {
  on_ranks(2, [](Fabric& f) {
    const Collection tree = Collection::map({{"loss", 0.5}, {"flags", Collection::list({true})}});
    const auto refused = [&](const std::vector<std::string>& parts, const Collection& value,
                             ReduceOp op) {
      expect_failure(Code::invalid_argument, parts, [&] { (void)f.all_reduce(value, op); });
    };
    refused(
        {"the leaf 'flags[0]': op avg has no meaning on boolean[]", "use band (all), bor (any)"},
        tree, ReduceOp::avg);
    refused({"op band has no meaning on float64[]", "reinterpret()"}, 1.5, ReduceOp::band);
    refused({"complex numbers have no order"}, std::complex<float>(), ReduceOp::max);
    refused({"op is number 77; give sum"}, 1, static_cast<ReduceOp>(77));
    refused({"op is number 77; give sum"}, Collection::list({}), static_cast<ReduceOp>(77));
    refused({"op is premulsum"}, 1, ReduceOp::premulsum);
    EXPECT_EQ(f.all_reduce(1, ReduceOp::sum), 2);
  });
}

}  // namespace
}  // namespace weft::test
