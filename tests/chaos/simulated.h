// Faults of a simulated medium: whole engines, all ranks in one thread, virtual time.
#pragma once

#include <string>
#include <utility>

#include "tests/chaos/tally.h"

namespace weft::chaos {

// One trial, all of it from the seed, and the name of its fault.
std::pair<std::string, Tally> simulate(uint64_t seed);

}  // namespace weft::chaos
