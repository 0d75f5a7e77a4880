// Every differentiable call of a group and its backward: the sum over ranks of <A x, y> is that of
// <x, A^T y>, for random x and y that differ between ranks.
#include <functional>
#include <random>

#include "fabric/gradients.h"
#include "tests/fabric/ranks.h"

namespace weft::test {
namespace {

const Shape kShape{2, 3, 4};

// Small whole numbers: sums are exact, so that equality is.
Tensor random(const Shape& shape, int seed) {
  std::mt19937 generator(static_cast<unsigned>(seed));
  std::uniform_int_distribution<int> any(-8, 8);
  std::vector<double> values(static_cast<size_t>(count_of(shape)));
  for (double& value : values) value = any(generator);
  return Tensor(std::move(values), shape);
}

double dot(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.shape(), b.shape());
  const std::vector<double> x = a.to_vector<double>(), y = b.to_vector<double>();
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
  return sum;
}

class Adjoint : public testing::TestWithParam<int> {
 protected:
  using Map = std::function<Tensor(const Tensor&)>;
  // `forward` takes kShape; the gradient of its result is random.
  static void expect_adjoint(Fabric& f, const Map& forward, const Map& backward) {
    const Tensor x = random(kShape, f.rank());
    const Tensor result = forward(x);
    const Tensor y = random(result.shape(), 100 + f.rank());
    const double left = f.all_reduce(dot(result, y), ReduceOp::sum);
    const double right = f.all_reduce(dot(x, backward(y)), ReduceOp::sum);
    EXPECT_DOUBLE_EQ(left, right);
    EXPECT_NE(left, 0) << "proves nothing";
  }
};

INSTANTIATE_TEST_SUITE_P(Ranks, Adjoint, testing::Range(1, 7));

TEST_P(Adjoint, AllGather) {
  on_ranks(GetParam(), [](Fabric& f) {
    expect_adjoint(
        f, [&](const Tensor& x) { return f.all_gather(x); },
        [&](const Tensor& y) { return all_gather_backward(f, y); });
    for (int dim = -3; dim < 3; ++dim)
      expect_adjoint(
          f, [&](const Tensor& x) { return f.all_gather(x, Concat{dim}); },
          [&](const Tensor& y) { return all_gather_backward(f, y, Concat{dim}); });
  });
}

TEST_P(Adjoint, AllReduce) {
  on_ranks(GetParam(), [](Fabric& f) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg})
      expect_adjoint(
          f, [&](const Tensor& x) { return f.all_reduce(x, op); },
          [&](const Tensor& y) { return all_reduce_backward(f, y, op); });
    expect_failure(Code::invalid_argument, {"op is max"},
                   [&] { (void)all_reduce_backward(f, Tensor(1.0), ReduceOp::max); });
  });
}

TEST_P(Adjoint, ReduceScatter) {
  on_ranks(GetParam(), [](Fabric& f) {
    expect_adjoint(
        f,
        [&](const Tensor& x) {
          const std::vector<Tensor> copies(static_cast<size_t>(f.size()), x);
          return f.reduce_scatter(concatenate(copies, 0));
        },
        [&](const Tensor& y) {
          const Tensor all = reduce_scatter_backward(f, y);
          Tensor sum = Tensor::zeros(DataType::float64, kShape);  // of the copies' gradients
          for (int r = 0; r < f.size(); ++r)
            for (int64_t i = 0; i < sum.count(); ++i)
              sum.span<double>()[static_cast<size_t>(i)] +=
                  all.slice(0, r * kShape[0], (r + 1) * kShape[0])
                      .span<double>()[static_cast<size_t>(i)];
          return sum;
        });
  });
}

// As scatter allows.
TEST_P(Adjoint, ScatterOfPartsThatDiffer) {
  on_ranks(GetParam(), [](Fabric& f) {
    const int src = f.size() - 1;
    std::vector<Tensor> parts;
    if (f.rank() == src)
      for (int r = 0; r < f.size(); ++r) parts.push_back(random({r + 1}, r));
    const Tensor part = f.scatter(parts, src);
    const std::vector<Tensor> back = scatter_backward(f, part, src);
    ASSERT_EQ(back.size(), parts.size());
    for (size_t r = 0; r < parts.size(); ++r) {
      EXPECT_EQ(back[r].shape(), parts[r].shape());
      EXPECT_EQ(back[r].to_vector<double>(), parts[r].to_vector<double>());
    }
    expect_failure(Code::invalid_argument, {"src is 9"},
                   [&] { (void)scatter_backward(f, part, 9); });
  });
}

TEST_P(Adjoint, CallsWithARoot) {
  on_ranks(GetParam(), [](Fabric& f) {
    for (int root = 0; root < f.size(); ++root) {
      const bool mine = f.rank() == root;
      const auto here = [mine](const Tensor& y) { return mine ? std::optional(y) : std::nullopt; };
      expect_adjoint(
          f, [&](const Tensor& x) { return f.broadcast(x, root); },
          [&](const Tensor& y) { return broadcast_backward(f, y, root); });
      expect_adjoint(
          f,
          [&](const Tensor& x) {
            return f.reduce(x, root).value_or(Tensor(std::vector<double>{}));
          },
          [&](const Tensor& y) { return reduce_backward(f, here(y), root); });
      expect_adjoint(
          f,
          [&](const Tensor& x) {
            return f.gather(x, root).value_or(Tensor(std::vector<double>{}));
          },
          [&](const Tensor& y) { return gather_backward(f, here(y), root); });
      expect_adjoint(
          f,
          [&](const Tensor& x) {  // part r is (r + 1) x
            std::vector<Tensor> parts;
            for (int r = 0; mine && r < f.size(); ++r) {
              parts.push_back(x.clone());
              for (double& value : parts.back().span<double>()) value *= r + 1;
            }
            return f.scatter(parts, root);
          },
          [&](const Tensor& y) {
            const std::vector<Tensor> parts = scatter_backward(f, y, root);
            Tensor sum = Tensor::zeros(DataType::float64, kShape);
            for (size_t r = 0; r < parts.size(); ++r) {
              const std::vector<double> part = parts[r].to_vector<double>();
              for (size_t i = 0; i < part.size(); ++i)
                sum.span<double>()[i] += static_cast<double>(r + 1) * part[i];
            }
            return sum;
          });
    }
  });
}

}  // namespace
}  // namespace weft::test
