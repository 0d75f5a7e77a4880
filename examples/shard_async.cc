// async_op: shards gathered and reduced beside the caller.
#include "examples/arguments.h"
#include "fabric/launch.h"
#include "fabric/shards.h"

int main(int argc, char** argv) {
  const int ranks = ranks_from(argc, argv, 2);
  return weft::launch({.devices = ranks}, [](weft::Fabric& fabric) {
    using weft::Tensor;
    const weft::Shards shards(fabric);
    const Tensor shard = Tensor::of({shards.rank(), shards.rank() + 10});
    const auto gathered = shards.group().async([&] { return shards.gather(shard); });
    const auto reduced = shards.group().async([&] { return shards.reduce(shard); });
    // ... compute here ...
    fabric.print("gathered", gathered.get());
    fabric.print("reduced", reduced.get());
  });
}
