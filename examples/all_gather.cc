// Each rank contributes 10 * rank; all ranks have all of it.
#include <vector>

#include "examples/arguments.h"
#include "fabric/launch.h"

int main(int argc, char** argv) {
  const int ranks = ranks_from(argc, argv, 4);
  return weft::launch({.devices = ranks}, [](weft::Fabric& fabric) {
    using weft::Concat, weft::Tensor;
    // A scalar tensor on 4 ranks gives shape [4].
    const Tensor scalars = fabric.all_gather(Tensor(10 * fabric.global_rank()));
    fabric.print(scalars, scalars.type_text());
    // Plain numbers give a vector.
    const std::vector<int> numbers = fabric.all_gather(10 * fabric.global_rank());
    fabric.print("the last one:", numbers.back());
    // A tensor gets a leading dimension, or is put one behind the other.
    const Tensor row = Tensor::of({fabric.global_rank(), 7});
    fabric.print("stacked", fabric.all_gather(row));
    fabric.print("concatenated", fabric.all_gather(row, Concat{0}));
  });
}
