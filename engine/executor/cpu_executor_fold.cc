// Where the operands of a step lie, and how they are folded.
#include <algorithm>

#include "base/ticks.h"
#include "engine/executor/cpu_executor.h"
#include "engine/executor/shared_state.h"

namespace weft {

// Turns of the first lane are those that are timed.
void CpuExecutor::begin_turn(Cursor& at) const {
  if (!plan_->stores) return;
  at.stores = plan_->stores->begin(plan_->turns + at.turn);
  at.stores.timed &= &at == cursors_.data();
}

void CpuExecutor::end_turn(const Cursor& at) {
  if (at.stores.timed) plan_->stores->end(at.stores, plan_->turns + at.turn);
}

std::byte* CpuExecutor::address(const Operand& operand, const Cursor& at) const {
  if (operand.rank >= 0 && operand.buffer != Buffer::window) return mapped(operand, at);
  switch (operand.buffer) {
    case Buffer::input: return const_cast<std::byte*>(at.input);
    case Buffer::output: return at.output;
    case Buffer::scratch: return scratch_ + operand.slot * plan_->scratch_slot_bytes;
    default:
      return plan_->windows[operand.rank]->memory + at.window +
             operand.slot * plan_->window_slot_bytes;
  }
}

// The chunk in a peer's Input or Output.
std::byte* CpuExecutor::mapped(const Operand& operand, const Cursor& at) const {
  const MappedBuffers& buffers = binding_.mapped[static_cast<size_t>(operand.rank)];
  const bool input = operand.buffer == Buffer::input;
  const size_t place = input ? plan_->layout.input_offset(at.chunk, operand.rank)
                             : plan_->layout.output_offset(at.chunk, operand.rank);
  std::byte* const begin = input ? const_cast<std::byte*>(buffers.input) : buffers.output;
  return begin + (place + at.begin) * plan_->element_bytes;
}

LlLine* CpuExecutor::line(const Operand& operand, const Cursor& at) const {
  return reinterpret_cast<LlLine*>(address(operand, at)) + at.line;
}

void CpuExecutor::locate(const PlanStep& step, const Cursor& at, size_t count,
                         Places& places) const {
  const size_t offset = at.position * plan_->element_bytes;
  const auto place = [&](const Operand& o) {
    const bool lined = step.lines && o.buffer == Buffer::window;
    return lined ? line(o, at)->begin(count * plan_->element_bytes) : address(o, at) + offset;
  };
  for (const Operand& o : step.sources) {
    if (plan_->scales && o.buffer == Buffer::input) places.scaled |= uint64_t{1} << places.sources;
    places.source[places.sources++] = place(o);
  }
  for (const Operand& o : step.targets) places.target[places.targets++] = place(o);
}

void CpuExecutor::fold(const PlanStep& step, Places& places, size_t count, Cursor& at) const {
  const size_t bytes = count * plan_->element_bytes;
  const bool streams = at.stores.streams && bytes >= kStreamedToPeers;
  const uint64_t past_caches =
      (plan_->request.streaming ? step.results : 0) | (streams ? step.shared : 0);
  if (!at.stores.timed) return fold(step, places, count, past_caches);
  const uint64_t begin = ticks();
  fold(step, places, count, past_caches);
  at.stores.ticks += ticks() - begin;
  at.stores.bytes += bytes;
}

void CpuExecutor::fold(const PlanStep& step, Places& places, size_t count,
                       uint64_t past_caches) const {
  const int64_t divisor = step.finish ? plan_->divisor : 1;
  const size_t bytes = count * plan_->element_bytes;
  if (places.sources == 1 && places.scaled == 0 && divisor == 1) {
    for (int i = 0; i < places.targets; ++i)
      if (places.target[i] != places.source[0])
        copy_bytes(places.target[i], places.source[0], bytes,
                   (past_caches & PlanStep::bit(static_cast<size_t>(i))) != 0);
    return;
  }
  if (places.targets > 2) past_caches &= ~PlanStep::bit(1);  // the others are copied from it
  ReduceCall call{.sources = places.source,
                  .source_count = places.sources,
                  .targets = places.target,
                  .target_count = std::min(2, places.targets),
                  .count = count,
                  .scalar = binding_.scalar,
                  .scaled = places.scaled,
                  .divisor = divisor,
                  .streamed = static_cast<uint32_t>(past_caches)};
  plan_->kernel(call);
  for (int i = 2; i < places.targets; ++i)
    copy_bytes(places.target[i], places.target[1], bytes,
               (past_caches & PlanStep::bit(static_cast<size_t>(i))) != 0);
}

}  // namespace weft
