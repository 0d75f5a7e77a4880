// Gradients of several batches are added up on each rank and averaged over the ranks once:
// no_backward_sync.
#include "examples/arguments.h"
#include "fabric/gradient_sync.h"
#include "fabric/launch.h"

int main(int argc, char** argv) {
  const int ranks = ranks_from(argc, argv, 2);
  return weft::launch({.devices = ranks}, [](weft::Fabric& fabric) {
    const weft::Tensor gradient = weft::Tensor::zeros(weft::DataType::float32, {2});
    weft::GradientSync sync(fabric, {gradient});
    constexpr int kAccumulate = 4;
    for (int step = 1; step <= 2 * kAccumulate; ++step) {
      const bool accumulating = step % kAccumulate != 0;
      const auto pause = sync.no_backward_sync(/*enabled=*/accumulating);
      sync.backward([&] {
        for (float& value : gradient.span<float>()) value += static_cast<float>(fabric.rank() + 1);
        sync.ready(0);
      });
      fabric.print("step", step, accumulating ? "rank 0's own" : "mean of all ranks'", gradient);
      if (!accumulating) gradient.copy_from(weft::Tensor::zeros(gradient.dtype(), {2}));
    }
  });
}
