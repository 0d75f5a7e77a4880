// scatter: rank i receives part i of one rank's list. gather: the way back.
#include <vector>

#include "examples/arguments.h"
#include "fabric/launch.h"

int main(int argc, char** argv) {
  const int ranks = ranks_from(argc, argv, 2);
  return weft::launch({.devices = ranks}, [](weft::Fabric& fabric) {
    using weft::Tensor;
    std::vector<Tensor> scatter_list;  // only the source needs one
    if (fabric.is_global_zero())
      for (int r = 0; r < fabric.world_size(); ++r)
        scatter_list.push_back(Tensor::of({10 * r, 10 * r + 1}));
    const Tensor mine = fabric.scatter(scatter_list, /*src=*/0);

    // On rank dst a tensor with a leading dimension, elsewhere nothing.
    const int dst = fabric.world_size() - 1;
    const auto gathered = fabric.gather(mine, dst);
    const auto shown = fabric.broadcast(gathered.value_or(Tensor()), dst);
    fabric.print("rank", dst, "gathered", shown);
    const auto last = fabric.all_gather_objects(gathered.has_value() ? 1 : 0);
    fabric.print("ranks that have it:", Tensor(last));
  });
}
