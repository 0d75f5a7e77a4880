// Every rank has a loss of its own; what is logged and decided on is their mean.
#include "examples/arguments.h"
#include "fabric/launch.h"

int main(int argc, char** argv) {
  const int ranks = ranks_from(argc, argv, 2);
  return weft::launch({.devices = ranks}, [](weft::Fabric& fabric) {
    double loss = 1.0 + fabric.global_rank();
    for (int step = 0; step < 3; ++step) {
      loss *= 0.5;
      const double mean = fabric.all_reduce(loss, weft::ReduceOp::avg);
      // The same number on every rank, so that all stop in the same step.
      const bool stop = mean < 0.5;
      fabric.print("step", step, "mean loss", mean, stop ? "enough" : "go on");
      if (stop) break;
    }
  });
}
