// Small faults planted in schedules.
#pragma once

#include <random>
#include <string>

#include "engine/schedule/schedule.h"

namespace weft {

struct Mutant {
  Schedule schedule;
  std::string what;  // "drop wait at rank 2, lane 0, step 3"
};

// A schedule with one fault, on one rank or the same on all; it may turn out harmless, or even
// equal to the original where the fault does not apply.
Mutant mutate(const Schedule& original, std::mt19937& random);

}  // namespace weft
