// A linear layer whose weights are cut by columns: y = x W. Forward: copy x, multiply by one's own
// columns, gather y. Backward: scatter the gradient of y, multiply, reduce the gradient of x.
#include <cstdint>

#include "examples/arguments.h"
#include "fabric/launch.h"
#include "fabric/shards.h"

namespace {

using weft::Tensor;

Tensor multiply(const Tensor& a, const Tensor& b) {
  const int64_t rows = a.size(0), inner = a.size(1), columns = b.size(1);
  const Tensor c = Tensor::zeros(weft::DataType::float64, {rows, columns});
  const double *x = a.data<double>(), *y = b.data<double>();
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t k = 0; k < inner; ++k)
      for (int64_t j = 0; j < columns; ++j)
        c.data<double>()[i * columns + j] += x[i * inner + k] * y[k * columns + j];
  return c;
}

Tensor transpose(const Tensor& a) {
  return Tensor::view(a.data<double>(), {a.size(1), a.size(0)}, {1, a.size(1)}).clone();
}

Tensor counting(weft::Shape shape) {
  std::vector<double> values(static_cast<size_t>(weft::count_of(shape)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i % 5);
  return Tensor(values, shape);
}

}  // namespace

int main(int argc, char** argv) {
  const int ranks = ranks_from(argc, argv, 2);
  return weft::launch({.devices = ranks}, [](weft::Fabric& fabric) {
    const weft::Shards shards(fabric);
    const Tensor x = counting({2, 3}), weights = counting({3, 12}), dy = counting({2, 12});

    const Tensor mine = shards.scatter(weights, 1);  // the columns of this rank
    const Tensor y = shards.gather(multiply(shards.copy(x), mine), 1);

    const Tensor my_dy = shards.gather_backward(dy, 1);
    const Tensor my_dw = multiply(transpose(x), my_dy);
    const Tensor dx = shards.copy_backward(multiply(my_dy, transpose(mine)));

    fabric.print("columns per rank:", mine.size(1));
    fabric.print("y", y);
    fabric.print("dx", dx);
    fabric.print("dW", shards.gather(my_dw, 1));
    const Tensor whole = multiply(x, weights);
    fabric.print("as on one rank:", whole.to_vector<double>() == y.to_vector<double>());
  });
}
