// What a figure was measured on.
#pragma once

#include <string>

#include "base/status.h"

namespace weft::bench {

struct Machine {
  std::string host;
  std::string cpu;     // model name
  std::string kernel;  // "Linux 6.1.0"
  int cores = 0;       // that are online, each half of a hyperthreaded one
};

Machine this_machine();

// Of memory that it has in all.
double memory_bytes();

// Ranks of a job that are started here.
struct RanksHere {
  int here = 1;
  int connected = 0;  // to rank 0, if that is one of them
  bool threads = false;
};
// An error where this machine cannot hold so many, which names --ranks and the limit. What passes
// may still be more than there is room for.
Status check_ranks(const RanksHere& ranks);

// "2026-03-01T12:00:00Z"
std::string utc_now();

}  // namespace weft::bench
