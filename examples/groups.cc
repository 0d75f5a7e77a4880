// Calls of some ranks only: groups by color, and of listed ranks.
#include "examples/arguments.h"
#include "fabric/launch.h"

int main(int argc, char** argv) {
  const int ranks = ranks_from(argc, argv, 4);
  return weft::launch({.devices = ranks}, [](weft::Fabric& fabric) {
    using weft::ReduceOp;
    const weft::Group parity = fabric.split(/*color=*/fabric.global_rank() % 2);
    const int sum = parity.all_reduce(fabric.global_rank(), ReduceOp::sum);
    fabric.print("sums of even and odd ranks:", weft::Tensor(fabric.all_gather(sum)));

    const weft::Group ends =
        fabric.new_group(fabric.world_size() > 1 ? std::vector<int>{fabric.world_size() - 1, 0}
                                                 : std::vector<int>{0});
    int rank = -1;  // of those that are no members
    if (ends.is_member()) rank = ends.rank();
    fabric.print("ranks in the group of both ends:", weft::Tensor(fabric.all_gather(rank)));
  });
}
