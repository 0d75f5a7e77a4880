// Faults of real processes: ranks that are killed, stopped, leave, abort, or run out of descriptors
// or memory, and hosts between which the cable is cut.
#pragma once

#include <string>
#include <utility>

#include "tests/chaos/tally.h"

namespace weft::chaos {

// The name of the fault and the medium of that seed's trial.
std::string kind_of(uint64_t seed);

// One trial, chosen by the seed (the moment of the fault is the machine's affair), and the name of
// its kind. Starts processes and waits for them. REQUIRES: the calling process has one thread.
std::pair<std::string, Tally> try_real(uint64_t seed);

}  // namespace weft::chaos
