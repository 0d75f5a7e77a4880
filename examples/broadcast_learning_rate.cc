// Rank 0 has found a learning rate; all ranks use it.
#include "examples/arguments.h"
#include "fabric/launch.h"

int main(int argc, char** argv) {
  const int ranks = ranks_from(argc, argv, 2);
  return weft::launch({.devices = ranks}, [](weft::Fabric& fabric) {
    double learning_rate = fabric.is_global_zero() ? 0.0025 : 0.0;
    learning_rate = fabric.broadcast(learning_rate, /*src=*/0);
    const auto all = fabric.all_gather(learning_rate);
    for (const double one : all) fabric.print("learning rate", one);
  });
}
