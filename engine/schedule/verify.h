// The verifier: runs the final, lowered schedule of all ranks on symbols and proves it, or says
// where it is wrong.
//
// Every chunk of every round holds a *reduction expression*, not a set: leaves name an input (rank,
// chunk, round), nodes say what was folded with what and where it was rounded. Programs block but
// never choose, so one run decides the values and deadlocks for given slot counts, whatever the
// interleaving; vector clocks decide races. Proven are, for every rank:
//  * the postcondition: every chunk of Output holds the fold of exactly the right inputs,
//    finished once;
//  * no deadlock with `slots` messages of room per link, nothing left in a link at the end;
//  * no race on Input, Output, Scratch or Window memory (in-place: where Input and Output
//    coincide);
//  * no read of what was never written, none of Input that was already overwritten;
//  * every link end belongs to one lane, every cell is posted once per round by one step, and some
//    step waits for it;
//  * Input is never written (in place, Output is);
//  * peers touch this rank's Input and Output only between its entry and its exit.
#pragma once

#include <span>
#include <vector>

#include "base/status.h"
#include "engine/schedule/schedule.h"

namespace weft {

struct VerifyOptions {
  // Messages of room per link. Fewer find deadlocks (one is the strictest), more find races.
  int slots = 1;
  // The most that links may have instead; 0: `slots`. One run proves all counts from `slots` to
  // these: it waits for room as with the fewest, and takes freed slots as signs of what came before
  // as with the most (docs/schedule.md).
  int most_slots = 0;
  // Rounds of every call; 0: as many as make links of `slots` and window halves wrap.
  int rounds = 0;
  // Sequences: the ring that window space is leased from, in multiples of the largest call's lease.
  int leases = 1;
  // 0: every chunk has elements in every round. Else a seed, by which every chunk runs out of
  // elements in a round of its own: messages that other chunks may have relied on are missing.
  unsigned uneven = 0;
  // Instead of a seed, by chunk: in how many rounds it has elements; more than all are all.
  std::vector<int> sizes = {};
  // As under the ll protocol (lines.h): where a chunk is empty, nothing stands in for the signals
  // that its lines would have carried. Only calls whose blocks are equal run so: with `uneven`, the
  // pieces of a block run out in different rounds, those of other blocks with them.
  bool lines = false;
};

struct Proof {
  Status status;           // not ok: message names rank, lane, step, round and what is wrong
  bool ran = false;        // else what is wrong is the form or the size, before anything ran
  bool same_bits = false;  // every rank that holds a chunk ends with the same expression
  bool canonical = false;  // every result is one fold of the inputs in rank order
  Cost counted;            // what the schedule really costs, for one round
  double hops_bound = 0;   // lower bounds for the same collective: see docs/schedule.md
  double chunks_bound = 0;
};

Proof verify(const Schedule& schedule, const VerifyOptions& options);

// Calls made one after the other on the same communicator: links, cells and leases carry over, a
// rank may be ahead of the others by as much as the schedules let it.
Status verify_sequence(std::span<const Schedule* const> calls, const VerifyOptions& options);

}  // namespace weft
