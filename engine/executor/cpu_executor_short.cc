// Short steps, run. A step is done whole, once all that it reads is there; until then the cursor
// says no more than which step is at hand, and where its first part lies is known already.
#include <algorithm>

#include "engine/executor/cpu_executor.h"
#include "engine/executor/shared_state.h"

namespace weft {

CpuExecutor::Move CpuExecutor::run_short(Cursor& at) {
  const std::vector<ShortStep>& steps = plan_->short_steps;
  const uint32_t first = at.step;
  for (; at.step < steps.size(); ++at.step) {
    const Move move = run_short(steps[at.step], at);
    if (move == Move::failed) return move;
    if (move == Move::blocked) return at.step == first ? move : Move::moved;
  }
  end_turn(at);
  at.finished = true;
  lanes_left_ = 0;
  return Move::moved;
}

CpuExecutor::Move CpuExecutor::run_short(const ShortStep& step, Cursor& at) {
  if (!at.entered) {
    const Move signal = step.waits ? signalled(*step.whole, at) : Move::complete;
    if (signal != Move::complete) return signal;
    locate(step, 0);
    at.entered = true;
    at.line = 0;
  }
  const uint64_t flag = signal_value(identity_.ll_serial, identity_.tag);
  if (step.lined) {
    const Move there = arrived(step, flag);
    if (there != Move::complete) return there;
  }
  for (size_t part = 0; part < step.parts; ++part) {
    if (part > 0) locate(step, part);
    fold(*step.whole, short_places_, step.elements(part), at);
    if (step.lined) set_flags(step, part, flag);
  }
  leave(*step.whole);
  at.entered = false;
  return Move::complete;
}

// REQUIRES: short_places_ are those of part 0.
CpuExecutor::Move CpuExecutor::arrived(const ShortStep& step, uint64_t expected) {
  const size_t bytes = step.elements(0) * plan_->element_bytes;
  for (size_t k = 0; k < step.sources.size(); ++k) {
    if (!step.sources[k].window) continue;
    const LlLine* line = LlLine::of(short_places_.source[k], bytes);
    for (size_t part = 0; part < step.parts; ++part, ++line) {
      const Move there = arrived(line->flag, step.sources[k].rank, expected);
      if (there != Move::complete) return there;
    }
  }
  return Move::complete;
}

void CpuExecutor::set_flags(const ShortStep& step, size_t part, uint64_t flag) {
  const size_t bytes = step.elements(part) * plan_->element_bytes;
  for (size_t k = 0; k < step.targets.size(); ++k)
    if (step.targets[k].window)
      LlLine::of(short_places_.target[k], bytes)->flag.store(flag, std::memory_order_release);
}

void CpuExecutor::locate(const ShortStep& step, size_t part) {
  const size_t offset = part * step.per_part * plan_->element_bytes;
  const size_t in_line = LlLine::kPayload - step.elements(part) * plan_->element_bytes;
  const auto place = [&](const ShortPlace& at) -> std::byte* {
    if (!at.window) {
      const std::byte* const memory = at.output ? binding_.output : binding_.input;
      return const_cast<std::byte*>(memory) + at.offset + offset;
    }
    std::byte* const lease = at.window->memory + identity_.window_offset + at.offset;
    return step.lined ? lease + part * sizeof(LlLine) + in_line : lease;
  };
  Places& places = short_places_;
  places.sources = places.targets = 0;
  places.scaled = step.scaled;
  for (const ShortPlace& source : step.sources) places.source[places.sources++] = place(source);
  for (const ShortPlace& target : step.targets) places.target[places.targets++] = place(target);
}

}  // namespace weft
