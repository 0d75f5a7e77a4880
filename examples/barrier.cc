// Ranks with unequal work wait for each other.
#include <chrono>
#include <thread>

#include "examples/arguments.h"
#include "fabric/launch.h"

int main(int argc, char** argv) {
  const int ranks = ranks_from(argc, argv, 2);
  return weft::launch({.devices = ranks}, [](weft::Fabric& fabric) {
    const auto seconds = [] {  // one clock for all ranks of a machine
      return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
          .count();
    };
    const auto work = std::chrono::milliseconds(20 * fabric.global_rank());
    std::this_thread::sleep_for(work);
    const double came = seconds();

    // With a name and a deadline: whoever does not come is in the error.
    fabric.barrier("after the work", /*timeout_s=*/60);

    const double left = seconds();
    const bool waited = left >= fabric.all_reduce(came, weft::ReduceOp::max);
    fabric.print("ranks that waited for the slowest one:",
                 fabric.all_reduce(waited ? 1 : 0, weft::ReduceOp::sum));
  });
}
