// Calls beside the caller: they run in order while this thread computes.
#include <vector>

#include "examples/arguments.h"
#include "fabric/launch.h"

int main(int argc, char** argv) {
  const int ranks = ranks_from(argc, argv, 2);
  return weft::launch({.devices = ranks}, [](weft::Fabric& fabric) {
    using weft::ReduceOp, weft::Tensor;
    std::vector<weft::Future<Tensor>> sums;
    for (int layer = 0; layer < 3; ++layer) {
      const Tensor gradient = Tensor::of({1.0f * layer, 1.0f * fabric.global_rank()});
      sums.push_back(
          fabric.async([&fabric, gradient] { return fabric.all_reduce(gradient, ReduceOp::sum); }));
    }
    const auto config =
        fabric.async([&] { return fabric.broadcast(fabric.is_global_zero() ? 3 : 0); });
    // ... compute here ...
    for (const auto& sum : sums) fabric.print("layer", sum.get());
    fabric.print("config", config.get());
  });
}
