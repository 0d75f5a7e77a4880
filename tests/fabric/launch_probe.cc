// A job that ends as its arguments say; launch_test.cc looks at what comes of it.
//   weft-launch-probe RANKS
//   well|threads|throw|early|leave|exit|kill|stray|twice|plain|where|abort|caught|unborn|
//   code|group|wrong|fork-throw|fork-return|name|again
//   [RANK [DEVICES]]
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>

#include "base/env.h"
#include "fabric/launch.h"

namespace {

constexpr int kStatus = 42;

// All but the culprit wait in vain, and go on as if they had not.
void wait_in_vain(weft::Fabric& fabric, int culprit) {
  if (fabric.rank() == culprit) return std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  try {
    fabric.barrier("epoch end", 0.3);
  } catch (const weft::Error& error) {
    std::printf("%s\n", error.what());
  }
}

// A child of the culprit leaves the body, too.
void fork_in_body(weft::Fabric& fabric, const std::string& how, int culprit) {
  if (fabric.rank() == culprit) {
    const pid_t child = ::fork();
    if (child == 0 && how == "fork-return") return;
    if (child == 0) throw std::runtime_error("the child failed");
    int status = -1;
    ::waitpid(child, &status, 0);
    std::printf("child %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    std::fflush(stdout);
  }
  fabric.print("sum", fabric.all_reduce(1, weft::ReduceOp::sum));
}

// A failure whose code is usually another rank's doing.
void fail_alone(weft::Fabric& fabric, const std::string& what, int culprit) {
  const weft::Group half = fabric.split(fabric.rank() / 2);
  if (fabric.rank() == culprit && what == "group") half.abort("half of it is enough");
  if (fabric.rank() == culprit && what == "group") half.barrier();
  if (fabric.rank() == culprit) throw weft::Error({weft::Code::aborted, "the data is corrupt"});
  fabric.barrier("that never is");
}

void act(weft::Fabric& fabric, const std::string& what, int culprit) {
  if (what == "throw" || what == "throw-threads") {
    fabric.barrier("begin");
    if (fabric.rank() == culprit) throw std::runtime_error("the disk is full");
    fabric.barrier("that never is");
  }
  if (what.starts_with("fork")) return fork_in_body(fabric, what, culprit);
  if (what == "code" || what == "group") return fail_alone(fabric, what, culprit);
  if (what == "wrong-in-half")
    fabric.split(fabric.rank() % 2).barrier("timed", fabric.rank() == culprit ? -1 : 1);
  if (what == "wrong") fabric.barrier("timed", fabric.rank() == culprit ? -1 : 1);
  if (fabric.rank() == culprit) {
    if (what == "early") throw std::runtime_error("the first thing failed");
    if (what == "leave") std::exit(0);  // NOLINT(concurrency-mt-unsafe): that is the test
    if (what == "abort") fabric.abort("no more of this");
    if (what == "exit") std::_Exit(kStatus);
    if (what == "kill") std::raise(SIGKILL);
  }
  if (what == "exit" || what == "kill") {
    if (fabric.rank() % 2) ::pause();  // some wait in a call, some elsewhere
    fabric.barrier("that never is");
  }
  if (what == "caught") return wait_in_vain(fabric, culprit);
  if (what == "stray" && fabric.rank() != culprit) return;  // leaves early, which is no failure
  if (what.starts_with("where")) {
    const std::string place = std::to_string(fabric.node_rank()) + "." +
                              std::to_string(fabric.local_rank()) + " of " +
                              std::to_string(fabric.num_nodes());
    std::vector<weft::Collection> places;
    for (const std::string& each : fabric.all_gather_objects(place)) places.emplace_back(each);
    return fabric.print(weft::Collection::list(places));
  }
  const int sum = fabric.all_reduce(fabric.rank(), weft::ReduceOp::sum);
  fabric.print("ranks", fabric.world_size(), "sum", sum, "local", fabric.local_rank());
}

}  // namespace

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 0;
  const std::string what = argc > 2 ? argv[2] : "well";
  const int culprit = argc > 3 ? std::atoi(argv[3]) : -1;
  const bool threads = what.ends_with("threads");
  // Ended before it meets the others, who are left alone.
  const bool unborn = what == "unborn";
  if (unborn && weft::Environment::of_process().get_int("WEFT_RANK") == culprit)
    std::raise(SIGKILL);
  const weft::FabricConfig config{
      .devices = ranks > 0  ? ranks
                 : argc > 4 ? std::atoi(argv[4])
                            : 0,
      .num_nodes = ranks < 0 ? -ranks : 0,
      .strategy = threads ? weft::Strategy::threads : weft::Strategy::processes,
      .keep_going = unborn};
  if (what != "plain") {
    const auto body = [&](weft::Fabric& fabric) {
      if (what == "name") return fabric.print(argv[0]);
      act(fabric, what, culprit);
    };
    const int status = weft::launch(config, body);
    if (what == "again" && status != 0) return weft::launch(config, body);
    return what.starts_with("twice") && status == 0 ? weft::launch(config, body) : status;
  }
  weft::Fabric fabric(config);
  fabric.launch();
  act(fabric, what, culprit);
  fabric.barrier("end");
  return 0;
}
