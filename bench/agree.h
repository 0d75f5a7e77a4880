// What all ranks of a job have to be given alike, and what is rank 0's alone to say.
#pragma once

#include "bench/options.h"
#include "engine/communicator.h"

namespace weft::bench {

// What rank 0 makes of a run, in which all take part.
struct Wanted {
  bool samples = false;  // times of single iterations
  bool trace = false;
  bool floor = false;
};

// Rank 0's, on every rank. The same error on all of them where some were given other calls or data
// to measure than rank 0: it names the first flag that differs, and both values. Collective.
Result<Wanted> agree(Communicator& control, const BenchOptions& options);

}  // namespace weft::bench
