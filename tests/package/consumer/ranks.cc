#include <fabric/launch.h>

#include <vector>

int main() {
  return weft::launch({.devices = 4}, [](weft::Fabric& fabric) {
    const std::vector<float> mine(3, static_cast<float>(fabric.global_rank()));
    const auto sum = fabric.all_reduce(mine, weft::ReduceOp::sum);
    fabric.print("ranks:", fabric.world_size(), "sum:", sum[2]);
  });
}
