// Eigen's matrices as tensors: column-major memory is a view with strides, and back by Map.
#include <Eigen/Core>

#include "examples/arguments.h"
#include "fabric/launch.h"

namespace {

// The matrix' own memory; the matrix has to outlive the tensor.
weft::Tensor view(Eigen::MatrixXd& matrix) {
  return weft::Tensor::view(matrix.data(), {matrix.rows(), matrix.cols()}, {1, matrix.rows()});
}

Eigen::MatrixXd matrix_of(const weft::Tensor& tensor) {
  using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const weft::Tensor dense = tensor.contiguous();
  return Eigen::Map<const RowMajor>(dense.data<double>(), dense.size(0), dense.size(1));
}

}  // namespace

int main(int argc, char** argv) {
  const int ranks = ranks_from(argc, argv, 2);
  return weft::launch({.devices = ranks}, [](weft::Fabric& fabric) {
    Eigen::MatrixXd a(2, 3);
    a << 1, 2, 3, 4, 5, fabric.global_rank();
    fabric.all_reduce_into(view(a), weft::ReduceOp::max);
    fabric.print("max in place", view(a));
    const Eigen::MatrixXd all = matrix_of(fabric.all_gather(view(a), weft::Concat{1}));
    fabric.print("columns of all", all.cols(), "sum", all.sum());
  });
}
