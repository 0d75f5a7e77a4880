// An algorithm: a pure function from a collective and a rank to that rank's program.
#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "engine/schedule/schedule.h"

namespace weft {

struct Parameters {
  int radix = 2;  // see each algorithm: children per node, partners per step, ...; >= 2
  friend bool operator==(const Parameters&, const Parameters&) = default;
};

struct Algorithm {
  std::string_view name;
  std::string_view summary;  // one line, with the source
  bool windows = false;      // needs every rank's window mapped in every other (one host)
  bool lines = true;         // with windows: may run under ll (schedule/lines.h)
  bool hands_back = false;   // with windows: who writes a slot is who has read it last, so that
                             // lines stay with who writes them next
  bool registered = false;   // reads and writes peers' Input and Output, so that all ranks have to
                             // pass memory which their communicator allocated
  bool readable = false;     // reads peers' Input, wherever that lies, so that all ranks have to be
                             // able to read each other's memory (Transport::reads_memory)
  int entered = -1;          // of these: the cell by which a rank says no more than that it is in
                             // the call. CPUs leave it out: they run such programs only when every
                             // rank has heard from every other one in the call
  bool canonical = false;    // folds every element in rank order on one rank, rounding once
  bool any_counts = false;   // serves the v-forms: sizes that only the two ends of a pair know
  bool radix = false;        // Parameters::radix matters

  std::function<bool(const Collective&)> suits = nullptr;
  // REQUIRES: suits(c), 0 <= me < c.ranks.
  std::function<Program(const Collective& c, Rank me, const Parameters& parameters)> build =
      nullptr;
  std::function<Cost(const Collective& c, const Parameters& parameters)> cost = nullptr;
  // By how many ranks a program may be turned: rank r + turn does what rank r does, with all peers
  // moved on by as many ranks (modulo all). 0, or no function: programs have no such symmetry.
  std::function<int(const Collective& c, const Parameters& parameters)> turn = nullptr;
};

// Bytes that the caches of a machine nothing is known of hold for its ranks: half of 32 MiB. The
// rest is windows', and that of others who share it.
inline constexpr double kCachedBytes = 15 << 20;

// Whether results that lie in no cache of the core yet are written past them: so large, they would
// only push more useful data out, this rank's or that of those beside it, which share the last
// cache: where it does not hold the Inputs and Outputs of all of them. `block`: bytes of a call's
// count; `neighbours`: ranks of this host, with this one; `cached`: bytes that its caches hold.
inline bool results_stream(Kind kind, int ranks, int neighbours, double block,
                           double cached = kCachedBytes) {
  return block * buffer_blocks(kind, ranks) * neighbours > cached;
}

// All that are built in, in the order in which they are listed.
std::span<const Algorithm> catalog();
const Algorithm* find_algorithm(std::string_view name,
                                std::span<const Algorithm> among = catalog());

// All ranks' programs: for proofs, pictures and tests (production builds only its own).
Schedule schedule_of(const Algorithm& algorithm, const Collective& c, const Parameters& parameters);

}  // namespace weft
