// reduce to one rank with every operation; the other ranks' tensors are never altered.
#include <utility>

#include "examples/arguments.h"
#include "fabric/launch.h"

int main(int argc, char** argv) {
  const int ranks = ranks_from(argc, argv, 4);
  return weft::launch({.devices = ranks}, [](weft::Fabric& fabric) {
    using weft::ReduceOp, weft::Tensor;
    const Tensor mine = Tensor::of({fabric.global_rank() + 1, 6});
    const auto before = mine.to_vector<int>();
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::prod, ReduceOp::min, ReduceOp::max,
                              ReduceOp::band, ReduceOp::bor, ReduceOp::bxor})
      if (const auto result = fabric.reduce(mine, /*dst=*/0, op)) fabric.print(name(op), *result);
    const bool altered = mine.to_vector<int>() != before;
    fabric.print("altered inputs:", fabric.all_reduce(altered ? 1 : 0, ReduceOp::sum));
  });
}
