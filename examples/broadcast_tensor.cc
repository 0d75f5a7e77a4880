// broadcast of a tensor: to ranks that know nothing of it, and into memory that is there.
#include <vector>

#include "examples/arguments.h"
#include "fabric/launch.h"

int main(int argc, char** argv) {
  const int ranks = ranks_from(argc, argv, 2);
  return weft::launch({.devices = ranks}, [](weft::Fabric& fabric) {
    using weft::Tensor;
    const int src = fabric.world_size() - 1;
    Tensor weights;  // empty everywhere but on the source
    if (fabric.global_rank() == src) weights = Tensor(std::vector<double>{1, 2, 3, 4}, {2, 2});
    weights = fabric.broadcast(weights, src);
    fabric.print(weights.type_text(), weights);

    std::vector<float> buffer(3, static_cast<float>(fabric.global_rank() + 1));
    fabric.broadcast_into(Tensor::view(std::span(buffer)), src);
    fabric.print("rank 0 has", Tensor(buffer));
  });
}
