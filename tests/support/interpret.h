// A judge of schedules that knows nothing of the verifier: runs all ranks' programs on numbers,
// with lanes interleaved at random, and looks at what comes out.
//
// A chunk of one round is two halves, read and written one after the other with other lanes in
// between, so that unordered accesses show as torn data. Users fill Input when they enter a call
// and scribble over Input and Output when they leave it.
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"
#include "engine/schedule/schedule.h"

namespace weft {

struct InterpretOptions {
  int slots = 2;   // messages of room per link
  int rounds = 3;  // of every call
  int leases = 1;  // window space, in multiples of the largest call's
  // Pieces of each block that have elements, the first ones; 0: all. Where a message has none it is
  // not sent, as executors have it; signals are.
  int full_pieces = 0;
  uint64_t seed = 1;
};

// The calls one after the other. Not ok: a result is wrong, nothing can go on, a message was left,
// or a step touches what is not there.
Status interpret(std::span<const Schedule* const> calls, const InterpretOptions& options);

}  // namespace weft
