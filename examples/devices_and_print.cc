// to_device: tensors and collections where this rank computes. print: rank 0's, to any stream.
#include <sstream>

#include "examples/arguments.h"
#include "fabric/launch.h"

int main(int argc, char** argv) {
  const int ranks = ranks_from(argc, argv, 2);
  return weft::launch({.devices = ranks}, [](weft::Fabric& fabric) {
    using weft::Collection, weft::Tensor;
    const Tensor batch = fabric.to_device(Tensor::of({1.5f, 2.5f}));
    const Collection both = fabric.to_device(Collection::map({{"x", batch}, {"y", 1}}));
    fabric.print(to_string(batch.device()), both);

    std::ostringstream file;
    fabric.print_to(file, "step", 3, "loss", 0.25);
    const auto lines = fabric.all_gather_objects(file.str());
    int written = 0;
    for (const auto& line : lines) written += line.empty() ? 0 : 1;
    fabric.print(written, "rank has printed:", lines[0].substr(0, lines[0].size() - 1));
  });
}
