// N ranks for a test: as threads of this process, or as processes of their own.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/communicator.h"
#include "tests/support/mode.h"

namespace weft::test {

struct Cluster {
  int ranks = 2;
  Mode mode = Mode::threads;
  Options options;                 // of every rank; timeout_s is set to 60 where it is the default
  std::vector<std::string> hosts;  // by rank, to play several hosts; empty: all on this one
  double give_up_s = 120;          // then the whole test fails (processes are killed)
};

// Runs `body` on every rank with a communicator of them all. GoogleTest expectations in the body
// count, also in processes. Creation must succeed on all ranks.
void run_ranks(const Cluster& cluster, const std::function<void(Communicator&)>& body);

// The same without a communicator: the body gets its rank and the rendezvous.
void run_bare_ranks(const Cluster& cluster, const std::function<void(Rendezvous&)>& body);

}  // namespace weft::test
