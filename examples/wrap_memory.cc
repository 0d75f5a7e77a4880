// Memory that is somebody else's, without a copy: a pointer, a vector, columns of a matrix.
#include <vector>

#include "examples/arguments.h"
#include "fabric/launch.h"

int main(int argc, char** argv) {
  const int ranks = ranks_from(argc, argv, 2);
  return weft::launch({.devices = ranks}, [](weft::Fabric& fabric) {
    using weft::ReduceOp, weft::Tensor;
    const auto rank = static_cast<float>(fabric.global_rank());
    float pixels[6] = {rank, 1, 2, 3, 4, 5};
    const Tensor rows = Tensor::view(pixels, {2, 3});
    const Tensor transposed = Tensor::view(pixels, {3, 2}, /*strides=*/{1, 3});
    fabric.all_reduce_into(rows, ReduceOp::sum);
    fabric.print("rows", rows, "transposed", transposed);

    std::vector<double> values{1, 2, 3};
    fabric.all_reduce_into(std::span(values), ReduceOp::sum);
    fabric.print("vector", Tensor(values));

    uint16_t halves[2] = {0x3c00, 0x4000};  // 1 and 2 as float16, of any library
    fabric.print("float16", fabric.all_reduce(Tensor::view(halves, weft::DataType::float16, {2}),
                                              ReduceOp::sum));
  });
}
