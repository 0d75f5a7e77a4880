// A nested collection of metrics, averaged and collected in as few messages as there are dtypes.
#include <map>
#include <string>

#include "examples/arguments.h"
#include "fabric/launch.h"

int main(int argc, char** argv) {
  const int ranks = ranks_from(argc, argv, 4);
  return weft::launch({.devices = ranks}, [](weft::Fabric& fabric) {
    using weft::Collection, weft::Tensor;
    const double rank = fabric.global_rank();
    const auto metrics = Collection::map(
        {{"loss", 0.5 + rank},
         {"accuracy", Collection::map({{"top1", 0.25 * rank}, {"top5", 0.5 * rank}})},
         {"histogram", Collection::tuple({Tensor::of({1, fabric.global_rank()}), 2})}});
    fabric.print("mean", fabric.all_reduce(metrics));
    fabric.print("all", fabric.all_gather(metrics));

    // The same with a plain map.
    const std::map<std::string, double> plain{{"loss", 0.5 + rank}, {"seconds", 2.0}};
    for (const auto& [name, value] : fabric.all_reduce(plain, weft::ReduceOp::max))
      fabric.print("max", name, value);
  });
}
