// The sum of 10 * rank: 60 on 4 ranks. And the other operations.
#include <cstdint>

#include "examples/arguments.h"
#include "fabric/launch.h"

int main(int argc, char** argv) {
  const int ranks = ranks_from(argc, argv, 4);
  return weft::launch({.devices = ranks}, [](weft::Fabric& fabric) {
    using weft::ReduceOp, weft::Tensor;
    const Tensor mine(10.0 * fabric.global_rank());
    fabric.print("sum", fabric.all_reduce(mine, ReduceOp::sum));
    fabric.print("mean", fabric.all_reduce(mine));  // the mean, unless told otherwise
    fabric.print("max", fabric.all_reduce(mine, ReduceOp::max));
    fabric.print("min", fabric.all_reduce(mine, ReduceOp::min));
    fabric.print("product of rank + 1:",
                 fabric.all_reduce(fabric.global_rank() + 1, ReduceOp::prod));
    // Every type: here int64 of shape [2], and the input stays as it was.
    const Tensor counts = Tensor::of({int64_t{1}, int64_t{fabric.global_rank()}});
    fabric.print("int64", fabric.all_reduce(counts, ReduceOp::sum), "of", counts);
  });
}
