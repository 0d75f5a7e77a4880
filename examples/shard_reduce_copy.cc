// reduce: the sum over the group, in place or not, complex numbers too; copy, whose backward it is.
#include <complex>

#include "examples/arguments.h"
#include "fabric/launch.h"
#include "fabric/shards.h"

int main(int argc, char** argv) {
  const int ranks = ranks_from(argc, argv, 2);
  return weft::launch({.devices = ranks}, [](weft::Fabric& fabric) {
    using weft::Tensor;
    const weft::Shards shards(fabric);
    const Tensor partial = Tensor::of({1.0f, 1.0f * shards.rank()});
    fabric.print("reduce", shards.reduce(partial), "of", partial);
    shards.reduce_into(partial);
    fabric.print("in place", partial);

    const std::complex<float> z(1, static_cast<float>(shards.rank()));
    fabric.print("complex", shards.reduce(Tensor(z)));

    // Forward the same tensor; backward the sum of what each rank has to say about it.
    const Tensor same = shards.copy(partial);
    const Tensor gradient = Tensor::of({1.0f, 10.0f * shards.rank()});
    fabric.print("copy", same.data() == partial.data(), "backward", shards.copy_backward(gradient));
  });
}
