// The ranks that a process starts on its machine: this very program again, told by its environment
// which rank it is.
#pragma once

#include <string>
#include <vector>

#include "bootstrap/processes.h"
#include "bootstrap/rendezvous.h"

namespace weft {

// Set in the environment of such ranks: whoever waits for them knows kExitSecondary.
inline constexpr const char* kSupervised = "WEFT_SUPERVISED";

struct LocalJob {
  int ranks = 1;   // of the job
  Rank first = 0;  // `count` ranks from this one are started here
  int count = 1;
  std::string name;                    // that tools show; empty: the path of this program
  std::vector<std::string> arguments;  // without the program
  // To a CPU each, cores first; where ranks are more than CPUs, to these in turn: a rank that the
  // scheduler moves finds its memory in another core's caches, and for a while more ranks may share
  // one core than another.
  bool bind = false;
  std::vector<std::string> hosts;  // by rank, the host that it plays (WEFT_HOST); empty: none
  OnLoss on_loss;  // where the others go on when a signal ends a rank, see run_together()
};

// Starts all, waits for all; when one fails, the others get a few seconds. Rank 0 gets the
// meeting's listener where it has one. REQUIRES: the calling process has one thread, and no other
// children.
Result<Outcome> run_local_job(const LocalJob& job, const Meeting& meeting);

// The arguments of this process, without the program.
std::vector<std::string> own_arguments();

}  // namespace weft
