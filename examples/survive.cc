// A job that loses a rank in the middle of a loop of all_reduces finishes it with the rest.
#include <csignal>

#include "examples/arguments.h"
#include "fabric/launch.h"

int main(int argc, char** argv) {
  const int ranks = ranks_from(argc, argv, 4);
  return weft::launch({.devices = ranks, .keep_going = true}, [](weft::Fabric& fabric) {
    constexpr int kSteps = 100;
    const bool doomed = fabric.world_size() > 1 && fabric.global_rank() == 1;
    int sum = 0;
    bool lost = false;
    // One step more: who has the last sum stays until all have it, as some may have to repeat it.
    for (int step = 0; step <= kSteps;) {
      if (doomed && step == 50) std::raise(SIGKILL);
      try {
        if (lost) {  // may fail as well, where one more is lost
          fabric = fabric.shrink();
          // Some may have had the sum that others have not: repeat that step.
          step = fabric.all_reduce(step, weft::ReduceOp::min);
          lost = false;
        }
        if (step < kSteps)
          sum = fabric.all_reduce(1, weft::ReduceOp::sum);
        else
          fabric.barrier("all steps");
        ++step;
      } catch (const weft::Error& error) {
        if (error.code() != weft::Code::peer_lost) throw;
        lost = true;
      }
    }
    fabric.print("ranks at the end:", fabric.world_size(), "sum of ones:", sum);
  });
}
