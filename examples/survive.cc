// A job that loses a rank in the middle of a loop of all_reduces finishes it with the rest.
#include <csignal>

#include "examples/arguments.h"
#include "fabric/launch.h"

int main(int argc, char** argv) {
  const int ranks = ranks_from(argc, argv, 4);
  return weft::launch({.devices = ranks, .keep_going = true}, [](weft::Fabric& fabric) {
    const bool doomed = fabric.world_size() > 1 && fabric.global_rank() == 1;
    int sum = 0;
    for (int step = 0; step < 100;) {
      if (doomed && step == 50) std::raise(SIGKILL);
      try {
        sum = fabric.all_reduce(1, weft::ReduceOp::sum);
        ++step;
      } catch (const weft::Error& error) {
        if (error.code() != weft::Code::peer_lost) throw;
        fabric = fabric.shrink();
        // Some may have had the sum that others have not: repeat that step.
        step = fabric.all_reduce(step, weft::ReduceOp::min);
      }
    }
    fabric.print("ranks at the end:", fabric.world_size(), "sum of ones:", sum);
  });
}
