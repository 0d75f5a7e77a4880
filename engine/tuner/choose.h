// Which algorithm runs a call, and how: by price where this machine's prices are known, else by a
// table over sizes. The same on all ranks, as it depends on nothing that differs between them.
#pragma once

#include "base/options.h"
#include "engine/algorithms/algorithm.h"
#include "engine/call.h"
#include "engine/tuner/tuner.h"

namespace weft {

// What the ranks of a communicator share, the same on all of them.
struct Surroundings {
  int ranks = 1;
  bool windows = false;              // every rank's window is mapped in every other
  bool device = false;               // they lie in GPUs' memory
  WindowRoom room = {};              // in each of them
  bool registered = false;           // all ranks' buffers of the call, in all ranks' memory
  bool readable = false;             // all ranks can read each other's inputs of the call
  bool in_place = false;             // of some rank they are one, or may be; where either is known
  const Algorithm* own = nullptr;    // the one that options.algorithm asks for, where it is a file
  std::string_view own_serves = {};  // for messages
  Tuner* tuner = nullptr;            // null: nothing was measured
  size_t slot_bytes = 0;             // of links, which have `slots` of them
  int slots = 0;
};

// Bytes that one rank contributes to, or takes from, one block.
size_t message_bytes(const Call& call);

// What could run the call, the cheapest first; null where nothing is known of prices, or the kind
// of call leaves no choice.
const std::vector<Offer>* offers(const Call& call, const Surroundings& around,
                                 const Options& options);

// Whether the call would run between registered buffers if all ranks' were.
bool may_use_registered(const Call& call, Surroundings around, const Options& options);

// Whether the call is one that ranks could run by reading each other's memory through the kernel;
// and whether they would if they can.
bool may_be_pulled(const Call& call, const Surroundings& around);
bool may_pull(const Call& call, Surroundings around, const Options& options);

// An error where options ask for what cannot serve this call; it says what can.
Result<Choice> choose(const Call& call, const Surroundings& around, const Options& options);

}  // namespace weft
