// From a call and the choice of how to run it to what a lowering takes.
#pragma once

#include <span>

#include "engine/call.h"
#include "engine/executor/layout.h"
#include "engine/executor/plan.h"
#include "engine/tuner/tuner.h"

namespace weft {

struct Arranged {
  PlanRequest request;  // but for `links` and `streaming`
  Program program;
  Layout layout;
};

// `aliased`: of this rank, input and output are one. An error where the algorithm cannot serve it.
Result<Arranged> arrange(const Call& call, bool aliased, const Choice& choice, int ranks, Rank me);
// The algorithm is that of groups, whatever the choice says.
Arranged arrange(std::span<const Transfer> group, const Choice& choice, int ranks, Rank me);

}  // namespace weft
