// Agreement before a call: every rank says what it is about to do, and all go on or none does.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/communicator.h"

namespace weft {

// What one rank is about to do.
struct Intent {
  std::string call;                 // "all_reduce(sum)": must be the same on all ranks
  std::vector<std::string> leaves;  // and these, one by one
  Status own;                       // why this rank cannot, where its arguments are wrong
  uint64_t extra = 0;               // told to all, may differ
};

// Collective. Gives all ranks' `extra` by rank, after one all_gather of a few bytes. Where a rank
// cannot, or where intents differ, every rank throws the same Error, which says which rank gave
// what; the communicator stays good. `timeout_s`: 0 is the communicator's.
std::vector<uint64_t> agree(Communicator& communicator, const Intent& intent, double timeout_s = 0);

// `own`, or, where that is ok, why prepare() throws: what a rank does by itself for a call it does
// before the ranks agree on it, so that the others hear of it when it fails.
Status prepared(const Status& own, std::string_view call, const std::function<void()>& prepare);

// Collective. check() throws where this rank's arguments of `call` are wrong; then every rank does.
void agree_on_arguments(Communicator& communicator, const std::string& call,
                        const std::function<void()>& check);

// Whether `rank`, the argument `what` of a call, is one of the communicator's.
Status check_rank(const char* what, int rank, const Communicator& communicator);

}  // namespace weft
