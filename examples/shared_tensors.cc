// Tensors in memory that ranks of one host share: reduced from each to each, with no copy between.
#include "examples/arguments.h"
#include "fabric/launch.h"

int main(int argc, char** argv) {
  const int ranks = ranks_from(argc, argv, 2);
  return weft::launch({.devices = ranks}, [](weft::Fabric& fabric) {
    using weft::DataType, weft::ReduceOp, weft::Tensor;
    const Tensor gradients = fabric.empty(DataType::float32, {2, 50'000});
    for (float& value : gradients.span<float>()) value = static_cast<float>(fabric.rank());
    fabric.all_reduce_into(gradients, ReduceOp::sum);
    fabric.print("sum", gradients[0].slice(0, 0, 3));
    const Tensor second = gradients[1];  // the same memory
    if (fabric.rank() == 0) second.span<float>()[7] = 42;
    fabric.broadcast_into(second);
    fabric.print("after broadcast", second.slice(0, 6, 9), "of", gradients.type_text());
  });
}
