// Rank 0 sends 1 to rank 1, which adds 1 and sends it back. Then the same without waiting.
#include "examples/arguments.h"
#include "fabric/launch.h"

int main(int argc, char** argv) {
  const int ranks = ranks_from(argc, argv, 2);
  return weft::launch({.devices = ranks}, [](weft::Fabric& fabric) {
    using weft::Tensor;
    if (fabric.world_size() < 2) return fabric.print("this needs two ranks");
    const Tensor value = Tensor::zeros(weft::DataType::float32, {1});
    if (fabric.global_rank() == 0) {
      value.span<float>()[0] = 1;
      fabric.send(value, /*dst=*/1);
      fabric.recv_into(value, /*src=*/1);
      fabric.print("rank 0 has", value);
    } else if (fabric.global_rank() == 1) {
      fabric.recv_into(value, 0);
      value.span<float>()[0] += 1;
      fabric.send(value, 0);
    }

    // isend, irecv: a ring, in which all send and receive at once.
    const int n = fabric.world_size();
    const Tensor mine = Tensor::of({fabric.global_rank()}), theirs = mine.clone();
    const auto sent = fabric.isend(mine, (fabric.global_rank() + 1) % n);
    const auto received = fabric.irecv_into(theirs, (fabric.global_rank() + n - 1) % n);
    received.get();
    sent.get();
    fabric.print("around the ring", fabric.all_gather(theirs, weft::Concat{0}));
  });
}
