#include "engine/executor/short_steps.h"

#include <algorithm>

#include "base/hand_over.h"
#include "engine/executor/plan.h"
#include "kernels/claim.h"

namespace weft {
namespace {

constexpr size_t kLines = 8;  // beyond this they are better taken as they come

bool is_short(const Operand& operand) {
  if (operand.buffer == Buffer::window) return true;
  return operand.rank < 0 && operand.buffer != Buffer::scratch;
}

bool is_short(const Plan& plan, const PlanStep& step) {
  const auto all_short = [](const std::vector<Operand>& operands) {
    return std::all_of(operands.begin(), operands.end(),
                       [](const Operand& o) { return is_short(o); });
  };
  const size_t most =
      step.lines ? kLines * plan.line_elements : kShortStepBytes / plan.element_bytes;
  return !step.from && !step.to && step.times == 1 && step.first.size <= most &&
         all_short(step.sources) && all_short(step.targets);
}

bool is_short(const Plan& plan) {
  if (plan.request.collective.kind == Kind::exchange) return false;  // memory of its own per chunk
  if (plan.lanes.size() != 1 || plan.lanes[0].rounds != 1 || plan.copies != 1) return false;
  const std::vector<PlanStep>& steps = plan.lanes[0].steps;
  return std::all_of(steps.begin(), steps.end(),
                     [&](const PlanStep& s) { return is_short(plan, s); });
}

// Where `fold` of a step, which is of `count` elements, finds the operand.
ShortPlace place_of(const Plan& plan, const PlanStep& step, const Operand& operand, size_t fold,
                    size_t count) {
  const size_t bytes = plan.element_bytes;
  if (operand.buffer == Buffer::window) {
    const size_t slot = static_cast<size_t>(operand.slot) * plan.window_slot_bytes;
    const size_t in_slot =
        step.lines ? fold * sizeof(LlLine) + LlLine::kPayload - count * bytes : 0;
    return {.window = plan.windows[operand.rank], .rank = operand.rank, .offset = slot + in_slot};
  }
  const bool output = operand.buffer == Buffer::output;
  const size_t first = output ? step.first.output : step.first.input;
  return {.output = output, .offset = (first + fold * plan.line_elements) * bytes};
}

// Whether this rank both writes to windows and reads what others write there.
bool exchanges(const Plan& plan) {
  const auto in_window = [](const Operand& o) { return o.buffer == Buffer::window; };
  bool reads = false, writes = false;
  for (const PlanStep& step : plan.lanes[0].steps) {
    reads |= std::any_of(step.sources.begin(), step.sources.end(), in_window);
    writes |= std::any_of(step.targets.begin(), step.targets.end(), in_window);
  }
  return reads && writes;
}

// Whether what the step writes is what its one source holds.
bool moves_bits(const Plan& plan, const PlanStep& step) {
  if (step.sources.size() != 1) return false;
  const bool divides = step.finish && plan.divisor != 1;
  const bool scales = plan.scales && step.sources[0].buffer == Buffer::input;
  return !divides && !scales;
}

ShortFold short_fold(const Plan& plan, const PlanStep& step, size_t fold) {
  ShortFold result{.count = step.first.size - fold * plan.line_elements};
  if (step.lines) result.count = std::min(result.count, plan.line_elements);
  result.bytes = result.count * plan.element_bytes;
  result.copies = moves_bits(plan, step) && result.bytes < kStreamedToPeers;
  for (const Operand& source : step.sources)
    result.sources.push_back(place_of(plan, step, source, fold, result.count));
  for (const Operand& target : step.targets)
    result.targets.push_back(place_of(plan, step, target, fold, result.count));
  return result;
}

// Those of one source after the other: what one rank writes comes in order.
std::vector<ShortPlace> flags_of(const ShortStep& step) {
  std::vector<ShortPlace> flags;
  if (!step.lined || step.folds.empty()) return flags;
  for (size_t k = 0; k < step.folds[0].sources.size(); ++k)
    for (const ShortFold& fold : step.folds) {
      if (!fold.sources[k].window) break;
      flags.push_back(fold.sources[k]);
      flags.back().offset += fold.bytes;
    }
  return flags;
}

ShortStep short_step(const Plan& plan, const PlanStep& step) {
  ShortStep result{.lined = step.lines,
                   .waits = !step.waits.empty(),
                   .signals = !step.posts.empty() || !step.wakes.empty(),
                   .whole = &step};
  for (size_t k = 0; k < step.sources.size(); ++k)
    if (plan.scales && step.sources[k].buffer == Buffer::input) result.scaled |= uint64_t{1} << k;
  // Without lines there is one fold of all, the first.
  const size_t count = step.sources.empty() ? 0 : step.first.size;
  const size_t at_once = step.lines ? plan.line_elements : std::max<size_t>(1, count);
  for (size_t fold = 0; fold * at_once < count; ++fold)
    result.folds.push_back(short_fold(plan, step, fold));
  result.flags = flags_of(result);
  return result;
}

}  // namespace

std::vector<ShortStep> short_steps(const Plan& plan) {
  std::vector<ShortStep> steps;
  if (!is_short(plan)) return steps;
  for (const PlanStep& step : plan.lanes[0].steps) steps.push_back(short_step(plan, step));
  const size_t most = exchanges(plan) ? kHandedOverInExchange : kHandedOverMost;
  for (ShortStep& step : steps)
    for (ShortFold& fold : step.folds) fold.hands_over = fold.bytes <= most;
  return steps;
}

// Who only writes does not wait: to claim as it goes on is no gain (1.2 to 2.0 times the time).
// Where slots are handed back this rank has the next one's lines already. Where CPUs are shared,
// there is no such wait: the others run meanwhile.
std::vector<ShortClaim> short_claims(const Plan& plan) {
  std::vector<ShortClaim> claims;
  const PlanRequest& request = plan.request;
  if (plan.short_steps.empty() || request.crowded || request.hands_back || !exchanges(plan))
    return claims;
  size_t all = 0;
  for (const ShortStep& step : plan.short_steps)
    for (const ShortFold& fold : step.folds)
      for (const ShortPlace& target : fold.targets) {
        if (!target.window) continue;
        const size_t flag = step.lined ? sizeof(uint64_t) : 0;
        const size_t bytes = fold.bytes + flag;
        claims.push_back({target.window, target.offset + plan.window_bytes(), bytes});
        all += bytes;
      }
  if (all > kClaimedNextMost) claims.clear();
  return claims;
}

}  // namespace weft
