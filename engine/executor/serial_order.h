// One order for the steps of all of a rank's lanes, for an executor that does one step after the
// other.
//
// Lanes of a rank run concurrently, and a schedule is only proven to end where they do. If every
// rank takes its steps in an order that comes from one order of the steps of all ranks, in which
// each follows whatever it waits for, then none waits for ever: the first of those not done, in
// that order, waits for nothing.
//
// Such an order is found by playing one round of all ranks. It serves every round: a round begins
// with all messages of those before received, and waits for nothing of those after. Messages that
// are not there in a round, where their chunks are empty, change nothing: others only come sooner.
//
// A lane that only sends goes as far as it can. So the orders also agree where the programs of some
// ranks are others than those played, as `pairwise` has another one in place, which each rank knows
// of its own buffers only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "engine/schedule/schedule.h"

namespace weft {

// Rank `me`'s lanes, by number: each goes on by one step, or one time of a step that loops, where
// its number comes. Programs are those of all ranks; links have so many slots. An error where none
// could go on.
Result<std::vector<uint32_t>> serial_order(std::span<const Program> programs, Rank me,
                                           uint32_t slots);

}  // namespace weft
