// Who is where: the ranks of a job, described by a config or by the launcher that started it.
#include <string>
#include <vector>

#include "examples/arguments.h"
#include "fabric/fabric.h"

int main(int argc, char** argv) {
  weft::Fabric fabric({.accelerator = weft::Accelerator::cpu,
                       .devices = ranks_from(argc, argv, 2),
                       .num_nodes = 1,
                       .strategy = weft::Strategy::processes});
  fabric.launch();  // starts the ranks; from here on this runs in each of them

  const std::string line =
      "rank " + std::to_string(fabric.global_rank()) + " of " +
      std::to_string(fabric.world_size()) + ": local rank " + std::to_string(fabric.local_rank()) +
      ", node " + std::to_string(fabric.node_rank()) + (fabric.is_global_zero() ? ", prints" : "");
  // Every rank knows all lines now; rank 0 prints them in order.
  for (const std::string& one : fabric.all_gather_objects(line)) fabric.print(one);
  fabric.barrier("end");
}
