// The ranks that a process starts on its machine: this very program again, told by its environment
// which rank it is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bootstrap/processes.h"
#include "bootstrap/rendezvous.h"

namespace weft {

// Set in the environment of such ranks: whoever waits for them knows kExitSecondary.
inline constexpr const char* kSupervised = "WEFT_SUPERVISED";

// Ranks to a CPU each, cores first, or none. Where they are more than CPUs, a rank that the
// scheduler moves finds its memory in another core's caches, and for a while more ranks may share
// one core than another; so they are bound
// - in turn (rank 0 to the first, 1 to the second, ...), or
// - in blocks, as many to each: neighbours share a core, and what one copies into a socket the next
//   finds in its cache. In turn, all that goes round a ring crosses from core to core.
enum class CpuBinding : uint8_t { none, in_turn, in_blocks };

struct LocalJob {
  int ranks = 1;   // of the job
  Rank first = 0;  // `count` ranks from this one are started here
  int count = 1;
  std::string name;                    // that tools show; empty: the path of this program
  std::vector<std::string> arguments;  // without the program
  CpuBinding binding = CpuBinding::none;
  std::vector<std::string> hosts;  // by rank, the host that it plays (WEFT_HOST); empty: none
  OnLoss on_loss;  // where the others go on when a signal ends a rank, see run_together()
};

// Starts all, waits for all; when one fails, the others get a few seconds. Rank 0 gets the
// meeting's listener where it has one, and is then the only one to hold it: when it has ended, the
// others see that nobody listens. REQUIRES: the calling process has one thread, and no other
// children.
Result<Outcome> run_local_job(const LocalJob& job, Meeting meeting);

// The arguments of this process, without the program.
std::vector<std::string> own_arguments();

}  // namespace weft
