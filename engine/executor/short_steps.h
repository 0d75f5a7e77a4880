// Short steps: the steps of a small call, resolved as far as they can be before it is made.
//
// Most small calls are one lane of window steps that runs once. What is left to do per step is to
// look at signals or flags, to add base addresses, to fold, and to set flags or signals; there are
// no loops, rounds, links or parts of messages to keep count of.
#pragma once

#include <algorithm>
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

struct ShortStep {
  size_t count = 0;     // elements
  size_t parts = 0;     // in which they are folded: lines, or one
  size_t per_part = 0;  // elements
  bool lined = false, waits = false;
  uint64_t scaled = 0;  // bit k: source k is multiplied by the scalar
  std::vector<ShortPlace> sources{}, targets{};
  const PlanStep* whole = nullptr;  // the step that this one is

  size_t elements(size_t part) const { return std::min(per_part, count - part * per_part); }
};

// One for each step of the plan's lane; none where the plan is not of this kind.
std::vector<ShortStep> short_steps(const Plan& plan);

}  // namespace weft
