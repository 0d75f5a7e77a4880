#include "engine/schedule/schedule.h"

namespace weft {

std::string_view name(Buffer buffer) {
  switch (buffer) {
    case Buffer::none: return "none";
    case Buffer::input: return "input";
    case Buffer::output: return "output";
    case Buffer::scratch: return "scratch";
    case Buffer::window: return "window";
  }
  return "unknown";
}

std::string name(const Step& step) {
  const size_t operands = step.operands();
  std::string text;
  const auto add = [&text](std::string_view word) {
    if (!text.empty()) text += '_';
    text += word;
  };
  if (step.from.used()) add("recv");
  if (operands > 1) add("reduce");
  // A receive without reduction into memory is just "recv"; with a send behind it both are named.
  const bool plain_recv = step.from.used() && operands == 1 && !step.to.used();
  const bool plain_reduce = operands > 1 && !step.to.used();
  if (!step.targets.empty() && !plain_recv && !plain_reduce) add("copy");
  if (step.to.used()) add("send");
  return text.empty() ? "signal" : text;
}

namespace {

void shift(std::vector<Operand>& operands, int copies, int copy) {
  for (Operand& o : operands)
    if (o.buffer == Buffer::scratch || o.buffer == Buffer::window) o.slot = o.slot * copies + copy;
}

void shift(std::vector<Signal>& signals, int copies, int copy) {
  for (Signal& s : signals) s.cell = s.cell * copies + copy;
}

Lane copy_of(const Lane& lane, int copies, int copy) {
  Lane result = lane;
  result.copy = copy;
  for (Step& step : result.steps) {
    if (step.from.used()) step.from.id = step.from.id * copies + copy;
    if (step.to.used()) step.to.id = step.to.id * copies + copy;
    shift(step.sources, copies, copy);
    shift(step.targets, copies, copy);
    shift(step.waits, copies, copy);
    shift(step.posts, copies, copy);
  }
  return result;
}

}  // namespace

Program replicate(Program program, int copies) {
  std::vector<Lane> lanes;
  lanes.reserve(program.lanes.size() * copies);
  for (int copy = 0; copy < copies; ++copy)
    for (const Lane& lane : program.lanes) lanes.push_back(copy_of(lane, copies, copy));
  program.lanes = std::move(lanes);
  program.scratch_slots *= copies;
  program.window_slots *= copies;
  program.copies = copies;
  return program;
}

}  // namespace weft
