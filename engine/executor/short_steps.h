// Short steps: the steps of a small call, resolved as far as they can be before it is made.
//
// Most small calls are one lane of window steps that runs once. What is left to do per step is to
// look at signals or flags, to add base addresses, to fold, and to set flags or signals; there are
// no loops, rounds, links or parts of messages to keep count of.
#pragma once

#include <cstdint>
#include <vector>

#include "base/types.h"
#include "transport/transport.h"

namespace weft {

struct Plan;
struct PlanStep;

struct ShortPlace {
  const Window* window = nullptr;  // null: the caller's memory
  bool output = false;             // Output, not Input
  Rank rank = -1;                  // of the window
  size_t offset = 0;               // bytes: in the lease, or in the caller's memory
};

// What is folded at once: a line's worth, or all. Where a step's window operands are lines, each
// ends where its flag begins.
struct ShortFold {
  size_t count = 0, bytes = 0;  // of each operand: elements, and what they take
  bool copies = false;          // few bytes of one source, as they are
  bool hands_over = false;      // what goes to windows (base/hand_over.h)
  std::vector<ShortPlace> sources{}, targets{};
};

struct ShortStep {
  bool lined = false, waits = false, signals = false;
  uint64_t scaled = 0;              // bit k: source k is multiplied by the scalar
  std::vector<ShortPlace> flags{};  // that say that all sources are there
  std::vector<ShortFold> folds{};   // in order
  const PlanStep* whole = nullptr;  // the step that this one is
};

// Window memory that the next call of this kind will write for others.
struct ShortClaim {
  const Window* window = nullptr;
  size_t offset = 0, bytes = 0;  // from this call's lease on
};

// One for each step of the plan's lane; none where the plan is not of this kind.
std::vector<ShortStep> short_steps(const Plan& plan);

// What is worth claiming (kernels/claim.h) while a call waits. REQUIRES: the plan's short steps are
// there, if it is of that kind.
std::vector<ShortClaim> short_claims(const Plan& plan);

}  // namespace weft
