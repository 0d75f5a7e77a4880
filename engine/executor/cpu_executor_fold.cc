// Where the operands of a step lie, and how they are folded.
#include <algorithm>
#include <cmath>

#include "base/ticks.h"
#include "engine/executor/cpu_executor.h"
#include "engine/executor/shared_state.h"
#include "kernels/copy.h"
#include "kernels/float_mode.h"

namespace weft {
namespace {

// Of each cost 16 bits: the 256th parts of its logarithm, which are 0.3 %.
uint32_t packed(const StoreTrial::Costs& costs) {
  uint32_t bits = 0;
  for (const double cost : costs.way) {
    const double part = cost > 1 ? 256 * std::log2(cost) : 0;
    bits = bits << 16 | static_cast<uint32_t>(std::min(part, 65535.0));
  }
  return bits;
}

StoreTrial::Costs unpacked(uint32_t bits) {
  const auto cost = [](uint32_t part) { return part == 0 ? 0 : std::exp2(part / 256.0); };
  return {{cost(bits >> 16), cost(bits & 0xffff)}};
}

}  // namespace

// Turns of the first lane are those that are timed.
void CpuExecutor::begin_tried_turn(Cursor& at) const {
  if (plan_->stores->undecided()) hear_costs();
  at.stores = plan_->stores->begin(plan_->turns + at.turn);
  at.stores.timed &= &at == cursors_.data();
}

void CpuExecutor::end_timed_turn(const Cursor& at) {
  if (plan_->stores->end(at.stores, plan_->turns + at.turn)) tell_costs();
}

// What a trial has found, and, in the word's other half, in which call it ended.
void CpuExecutor::tell_costs() {
  const StoreTrial::Costs costs = plan_->stores->costs();
  if (plan_->windows.empty()) return plan_->stores->decide(costs);
  plan_->tried_in = identity_.tag;
  WindowLayout::found(plan_->windows[media_.me()]->memory)
      .store(signal_value(packed(costs), identity_.tag), std::memory_order_relaxed);
}

void CpuExecutor::hear_costs() const {
  StoreTrial::Costs all = plan_->stores->costs();
  for (const Window* window : plan_->windows) {
    const uint64_t found = WindowLayout::found(window->memory).load(std::memory_order_relaxed);
    if (same_call(found, plan_->tried_in))
      all.add(unpacked(signal_count(found)));
    else if (plan_->stores->waits())
      return;
  }
  plan_->stores->decide(all);
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
  // What is written past the caches is on its way for long, and a signal behind it waits as long.
  at.stores.ticks += ticks_after_stores() - begin;
  at.stores.bytes += bytes;
}

void CpuExecutor::fold(const PlanStep& step, Places& places, size_t count,
                       uint64_t past_caches) const {
  if (places.targets == 0) return;  // a step may only read, or only take a message
  const int64_t divisor = step.finish ? plan_->divisor : 1;
  const size_t bytes = count * plan_->element_bytes;
  const auto copy = [&](int target, const void* from) {
    const auto place = static_cast<size_t>(target);
    const bool streamed = (past_caches & PlanStep::bit(place)) != 0;
    copy_bytes(places.target[place], from, bytes,
               streamed ? CopyWay::streamed : step.way_to(place));
  };
  if (places.sources == 1 && places.scaled == 0 && divisor == 1) {
    for (int i = 0; i < places.targets; ++i)
      if (places.target[i] != places.source[0]) copy(i, places.source[0]);
    return;
  }
  if (places.targets > 2) past_caches &= ~PlanStep::bit(1);  // the others are copied from it
  // What the fold reads itself comes with that, and is not claimed: 0.92 to 1.0 of the time.
  const uint64_t claimed = step.shared & ~step.also_read;
  ReduceCall call{.sources = places.source,
                  .source_count = places.sources,
                  .targets = places.target,
                  .target_count = std::min(2, places.targets),
                  .count = count,
                  .scalar = binding_.scalar,
                  .scaled = places.scaled,
                  .divisor = divisor,
                  .streamed = static_cast<uint32_t>(past_caches),
                  .shared = static_cast<uint32_t>(claimed)};
  const UsualFloatMode mode;
  plan_->kernel(call);
  for (int i = 2; i < places.targets; ++i) copy(i, places.target[1]);
}

}  // namespace weft
