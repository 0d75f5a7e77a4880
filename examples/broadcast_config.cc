// A configuration that only rank 0 has read, as JSON: {"lr": 0.001, "batch_size": 32}.
#include "examples/arguments.h"
#include "fabric/json.h"
#include "fabric/launch.h"

int main(int argc, char** argv) {
  const int ranks = ranks_from(argc, argv, 2);
  return weft::launch({.devices = ranks}, [](weft::Fabric& fabric) {
    nlohmann::json config;
    if (fabric.is_global_zero())
      config = {{"lr", 0.001}, {"batch_size", 32}, {"layers", {784, 128, 10}}, {"name", "mlp"}};
    config = fabric.broadcast(config);
    // Every rank's copy, to see that it arrived.
    for (const auto& one : fabric.all_gather_objects(config)) fabric.print(one.dump());
  });
}
