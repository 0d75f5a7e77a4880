#include "fabric/shards.h"

#include <complex>
#include <numeric>
#include <random>

#include "tests/fabric/ranks.h"

namespace weft::test {
namespace {

class ShardsTest : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, ShardsTest, testing::Range(1, 7));

TEST(Shards, AreGroupsOfConsecutiveRanks) {
  on_ranks(6, [](Fabric& f) {
    const Shards one(f);
    EXPECT_TRUE(one.is_initialized());
    EXPECT_EQ(one.group_size(), 1);
    EXPECT_EQ(one.world_size(), 6);
    EXPECT_EQ(one.rank(), f.rank());
    Shards three(f, 3);
    EXPECT_EQ(three.groups(), 3);
    EXPECT_EQ(three.group_size(), 3);
    EXPECT_EQ(three.group_index(), f.rank() / 2);
    EXPECT_EQ(three.rank(), f.rank() % 2);
    EXPECT_EQ(three.world_size(), 2);
    EXPECT_EQ(three.reduce(Tensor(f.rank())).item<int>(), 4 * (f.rank() / 2) + 1);
    three.destroy();
    EXPECT_FALSE(three.is_initialized());
    expect_failure(Code::invalid_argument, {"groups is 4", "the 6 ranks"},
                   [&] { (void)Shards(f, 4); });
    expect_failure(Code::invalid_argument, {"groups is 0"}, [&] { (void)Shards(f, 0); });
  });
}

TEST(Shards, RanksThatAskForDifferentGroups) {
  on_ranks(6, [](Fabric& f) {
    expect_failure(Code::mismatch,
                   {"Shards(groups=2) on ranks 0, 1, 3, 4 and 5; Shards(groups=3) on rank 2"},
                   [&] { (void)Shards(f, f.rank() == 2 ? 3 : 2); });
    expect_failure(Code::invalid_argument, {"rank 2: groups is 5"},
                   [&] { (void)Shards(f, f.rank() == 2 ? 5 : 2); });
    EXPECT_EQ(Shards(f, 2).world_size(), 3);
  });
}

TEST(Shards, InNoGroup) {
  for (const Shards& none : {Shards(), Shards(Group())}) {
    EXPECT_FALSE(none.is_initialized());
    EXPECT_EQ(none.group_index(), -1);
    EXPECT_EQ(none.rank(), -1);
    EXPECT_EQ(none.world_size(), -1);
    EXPECT_EQ(none.group_size(), -1);
    EXPECT_THROW((void)none.scatter(Tensor::of({1})), Error);
    EXPECT_THROW((void)none.gather(Tensor::of({1})), Error);
  }
}

// The documents' own example.
TEST(Shards, OfSixByEightOnTwoRanks) {
  on_ranks(2, [](Fabric& f) {
    const Shards shards(f);
    std::vector<int> values(48);
    std::iota(values.begin(), values.end(), 0);
    const Tensor t(values, {6, 8});
    EXPECT_EQ(shards.scatter(t, 0).shape(), (Shape{3, 8}));
    EXPECT_EQ(shards.scatter(t, 1).shape(), (Shape{6, 4}));
    EXPECT_EQ(shards.scatter(t).shape(), (Shape{6, 4}));
    EXPECT_EQ(shards.gather(t, 0).shape(), (Shape{12, 8}));
    EXPECT_EQ(shards.gather(t, 1).shape(), (Shape{6, 16}));
    EXPECT_EQ(shards.scatter(t, 0)[0][0].item<int>(), 24 * f.rank());
    EXPECT_EQ(shards.scatter(t, 1)[1][0].item<int>(), 8 + 4 * f.rank());
    EXPECT_EQ(shards.gather(shards.scatter(t, 0), 0).to_vector<int>(), values);
    EXPECT_EQ(shards.gather(shards.scatter(t), -1).to_vector<int>(), values);
    const auto at_one = shards.gather_to(shards.scatter(t), 1);
    ASSERT_EQ(at_one.has_value(), f.rank() == 1);
    EXPECT_EQ(at_one.value_or(t).to_vector<int>(), values);
  });
}

TEST(Shards, ADimensionThatDoesNotDivide) {
  on_ranks(4, [](Fabric& f) {
    const Shards shards(f);
    expect_failure(Code::invalid_argument, {"dim 0 of int8[6, 8] does not divide into 4"}, [&] {
      (void)shards.scatter(Tensor::zeros(DataType::int8, {6, 8}), 0);
    });
    expect_failure(Code::invalid_argument, {"dim is 2"}, [&] {
      (void)shards.gather(Tensor::zeros(DataType::int8, {6, 8}), 2);
    });
    EXPECT_EQ(f.all_reduce(1, ReduceOp::sum), 4);
  });
}

TEST_P(ShardsTest, ReduceTakesComplexNumbersAndWorksInPlace) {
  on_ranks(GetParam(), [](Fabric& f) {
    const Shards shards(f);
    const std::complex<double> z(1, f.rank());
    const Tensor t = Tensor::of({z, 2.0 * z});
    const Tensor sum = shards.reduce(t);
    const std::complex<double> expected(f.size(), f.size() * (f.size() - 1) / 2);
    EXPECT_EQ(sum.span<std::complex<double>>()[1], 2.0 * expected);
    EXPECT_EQ(t.span<std::complex<double>>()[0], z);
    shards.reduce_into(t);
    EXPECT_EQ(t.span<std::complex<double>>()[0], expected);
    EXPECT_EQ(shards.copy(t).data(), t.data());
    const auto later = shards.group().async([&] { return shards.gather(t); });
    EXPECT_EQ(later.get().size(0), 2 * f.size());
  });
}

// ---- adjoints ----

Tensor random_complex(const Shape& shape, int seed) {
  std::mt19937 generator(static_cast<unsigned>(seed));
  std::uniform_int_distribution<int> any(-8, 8);
  std::vector<std::complex<double>> values(static_cast<size_t>(count_of(shape)));
  for (auto& value : values) value = {1.0 * any(generator), 1.0 * any(generator)};
  return Tensor(std::move(values), shape);
}

// The real inner product of complex numbers taken as pairs.
double real_dot(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.shape(), b.shape());
  const auto x = a.to_vector<std::complex<double>>(), y = b.to_vector<std::complex<double>>();
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += (x[i] * std::conj(y[i])).real();
  return sum;
}

// What is replicated is made of the group's seed, what is distributed of the rank's, too.
struct Space {
  bool replicated;
  double product(const Shards& shards, const Tensor& a, const Tensor& b) const {
    const double mine = real_dot(a, b);
    return replicated ? mine : shards.group().all_reduce(mine, ReduceOp::sum);
  }
  Tensor any(const Shards& shards, const Shape& shape, int seed) const {
    return random_complex(shape,
                          seed + 1000 * shards.group_index() + (replicated ? 0 : shards.rank()));
  }
};
constexpr Space kReplicated{true}, kDistributed{false};

using Map = std::function<Tensor(const Tensor&)>;
void expect_adjoint(const Shards& shards, Space from, const Shape& shape, Space to,
                    const Map& forward, const Map& backward) {
  const Tensor x = from.any(shards, shape, 1);
  const Tensor result = forward(x);
  const Tensor y = to.any(shards, result.shape(), 100);
  const double left = to.product(shards, result, y);
  EXPECT_DOUBLE_EQ(left, from.product(shards, x, backward(y)));
  EXPECT_NE(left, 0) << "proves nothing";
}

void expect_adjoints(const Shards& shards) {
  const int64_t n = shards.world_size();
  const Shape shape{2 * n, n, 3 * n};
  for (int dim = -3; dim < 3; ++dim) {
    expect_adjoint(
        shards, kReplicated, shape, kDistributed,
        [&](const Tensor& x) { return shards.scatter(x, dim); },
        [&](const Tensor& y) { return shards.scatter_backward(y, dim); });
    expect_adjoint(
        shards, kDistributed, shape, kReplicated,
        [&](const Tensor& x) { return shards.gather(x, dim); },
        [&](const Tensor& y) { return shards.gather_backward(y, dim); });
    const int dst = shards.world_size() - 1;
    const bool mine = shards.rank() == dst;
    expect_adjoint(
        shards, kDistributed, shape, kDistributed,
        [&](const Tensor& x) {
          return shards.gather_to(x, dst, dim)
              .value_or(Tensor(std::vector<std::complex<double>>{}));
        },
        [&](const Tensor& y) {
          return shards.gather_to_backward(mine ? std::optional(y) : std::nullopt, dst, dim);
        });
  }
  expect_adjoint(
      shards, kDistributed, shape, kReplicated, [&](const Tensor& x) { return shards.reduce(x); },
      [&](const Tensor& y) { return shards.reduce_backward(y); });
  expect_adjoint(
      shards, kReplicated, shape, kDistributed, [&](const Tensor& x) { return shards.copy(x); },
      [&](const Tensor& y) { return shards.copy_backward(y); });
}

TEST_P(ShardsTest, BackwardsAreAdjoints) {
  on_ranks(GetParam(), [](Fabric& f) {
    for (int groups = 1; groups <= f.size(); ++groups)
      if (f.size() % groups == 0) expect_adjoints(Shards(f, groups));
  });
}

}  // namespace
}  // namespace weft::test
