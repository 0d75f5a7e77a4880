// A (6, 8) tensor cut into shards along a dimension, and put together again.
#include <numeric>
#include <vector>

#include "examples/arguments.h"
#include "fabric/launch.h"
#include "fabric/shards.h"

int main(int argc, char** argv) {
  const int ranks = ranks_from(argc, argv, 2);
  return weft::launch({.devices = ranks}, [](weft::Fabric& fabric) {
    using weft::Tensor;
    std::vector<float> values(48);
    std::iota(values.begin(), values.end(), 0.0f);
    const Tensor whole(values, {6, 8});
    const weft::Shards shards(fabric);
    for (const int dim : {0, 1, -1}) {
      if (whole.size(dim) % shards.world_size() != 0) {  // scatter would throw, and say this
        fabric.print("dim", dim, "does not divide into", shards.world_size());
        continue;
      }
      const Tensor shard = shards.scatter(whole, dim), again = shards.gather(shard, dim);
      fabric.print("dim", dim, "shard", shard.type_text(), "gathered", again.type_text(),
                   again.to_vector<float>() == values ? "as before" : "different");
      fabric.print("  the whole gathered:", shards.gather(whole, dim).type_text());
    }

    const auto at_last = shards.gather_to(whole, /*dst=*/shards.world_size() - 1, 0);
    fabric.print("gathered on the last rank only, not here:",
                 !at_last.has_value() || shards.world_size() == 1);
  });
}
