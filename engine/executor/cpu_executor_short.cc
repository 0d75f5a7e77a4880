// Short steps, run. A step is done whole, once all that it reads is there; until then the cursor
// says no more than which step is at hand.
#include "base/hand_over.h"
#include "engine/executor/cpu_executor.h"
#include "engine/executor/shared_state.h"
#include "kernels/claim.h"

namespace weft {

CpuExecutor::Progress CpuExecutor::poll_short() {
  const bool first = cursors_[0].step == 0;
  switch (run_short(cursors_[0])) {
    case Move::failed: return Progress::failed;
    case Move::blocked: return Progress::blocked;
    case Move::moved:
      if (first) claim_next();
      return Progress::moved;
    case Move::complete: break;
  }
  finish_call();
  return Progress::done;
}

// For the call after this one, which most often leases as much, behind this one. A hint: a peer
// that still reads what is claimed, some calls behind, only has to fetch it again.
void CpuExecutor::claim_next() const {
  const size_t left = plan_->window_end() - identity_.window_offset;  // to where the lap ends
  for (const ShortClaim& claim : plan_->short_claims)
    if (claim.offset + claim.bytes <= left)
      claim_memory(claim.window->memory + identity_.window_offset + claim.offset, claim.bytes);
}

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
  return Move::complete;
}

CpuExecutor::Move CpuExecutor::run_short(const ShortStep& step, Cursor& at) {
  if (!at.entered) {
    const Move signal = step.waits ? signalled(*step.whole, at) : Move::complete;
    if (signal != Move::complete) return signal;
    at.entered = true;
    at.line = 0;
  }
  const uint64_t flag = signal_value(identity_.ll_serial, identity_.tag);
  for (const ShortPlace& place : step.flags) {
    const std::atomic<uint64_t>& there = LlLine::flag_at(memory_of(place));
    if (there.load(std::memory_order_acquire) == flag) [[likely]]
      continue;
    const Move move = arrived(there, place.rank, flag);
    if (move != Move::complete) return move;
  }
  for (const ShortFold& part : step.folds) fold(part, step, flag, at);
  if (step.signals) leave(*step.whole);
  at.entered = false;
  return Move::complete;
}

void CpuExecutor::fold(const ShortFold& part, const ShortStep& step, uint64_t flag, Cursor& at) {
  Places places;
  places.scaled = step.scaled;
  for (const ShortPlace& source : part.sources) places.source[places.sources++] = memory_of(source);
  for (const ShortPlace& target : part.targets) places.target[places.targets++] = memory_of(target);
  const size_t bytes = part.count * plan_->element_bytes;
  if (step.lined)
    fold(*step.whole, places, part.count, uint64_t{0});
  else
    fold(*step.whole, places, part.count, at);
  for (size_t k = 0; k < part.targets.size(); ++k) {
    if (!part.targets[k].window) continue;
    auto* const target = static_cast<std::byte*>(places.target[k]);
    if (step.lined) LlLine::flag_at(target + bytes).store(flag, std::memory_order_release);
    if (part.hands_over) hand_over(target, bytes);
  }
}

}  // namespace weft
