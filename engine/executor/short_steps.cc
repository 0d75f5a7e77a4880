#include "engine/executor/short_steps.h"

#include <algorithm>

#include "engine/executor/plan.h"

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

ShortPlace place_of(const Plan& plan, const PlanStep& step, const Operand& operand) {
  const size_t bytes = plan.element_bytes;
  if (operand.buffer == Buffer::window)
    return {.window = plan.windows[operand.rank],
            .rank = operand.rank,
            .offset = static_cast<size_t>(operand.slot) * plan.window_slot_bytes};
  const bool output = operand.buffer == Buffer::output;
  return {.output = output, .offset = (output ? step.first.output : step.first.input) * bytes};
}

ShortStep short_step(const Plan& plan, const PlanStep& step) {
  ShortStep result{.count = step.sources.empty() ? 0 : step.first.size, .whole = &step};
  result.lined = step.lines;
  result.waits = !step.waits.empty();
  result.per_part = step.lines ? plan.line_elements : std::max<size_t>(1, result.count);
  result.parts = (result.count + result.per_part - 1) / result.per_part;
  for (const Operand& source : step.sources) {
    if (plan.scales && source.buffer == Buffer::input)
      result.scaled |= uint64_t{1} << result.sources.size();
    result.sources.push_back(place_of(plan, step, source));
  }
  for (const Operand& target : step.targets) result.targets.push_back(place_of(plan, step, target));
  return result;
}

}  // namespace

std::vector<ShortStep> short_steps(const Plan& plan) {
  std::vector<ShortStep> steps;
  if (!is_short(plan)) return steps;
  for (const PlanStep& step : plan.lanes[0].steps) steps.push_back(short_step(plan, step));
  return steps;
}

}  // namespace weft
