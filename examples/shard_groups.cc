// Model-parallel groups: init, who is where, destroy.
#include "examples/arguments.h"
#include "fabric/launch.h"
#include "fabric/shards.h"

int main(int argc, char** argv) {
  const int ranks = ranks_from(argc, argv, 4);
  return weft::launch({.devices = ranks}, [](weft::Fabric& fabric) {
    weft::Shards shards;
    fabric.print("before: initialized", shards.is_initialized(), "group", shards.group_index(),
                 "rank", shards.rank(), "world size", shards.world_size(), "groups",
                 shards.groups());

    // Two groups where the job divides; returns when all ranks have joined.
    shards = weft::Shards(fabric, fabric.world_size() % 2 == 0 ? 2 : -1);
    fabric.print("after: initialized", shards.is_initialized(), "world size", shards.world_size(),
                 "groups", shards.groups());
    fabric.print("group of each rank", weft::Tensor(fabric.all_gather(shards.group_index())));
    fabric.print("rank in its group", weft::Tensor(fabric.all_gather(shards.rank())));

    shards.destroy();
    fabric.print("destroyed: initialized", shards.is_initialized());
  });
}
