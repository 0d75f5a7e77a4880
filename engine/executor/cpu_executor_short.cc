// Short steps, run. A step is done whole, once all that it reads is there; until then the cursor
// says no more than which step is at hand.
//
// A small call takes little more than its own instructions, so what each runs is inline: the
// compiler would not do it by itself for members.
#include "base/hand_over.h"
#include "engine/executor/cpu_executor.h"
#include "engine/executor/shared_state.h"
#include "kernels/claim.h"
#include "kernels/copy.h"

namespace weft {

std::byte* CpuExecutor::memory_of(const ShortPlace& place) const {
  if (place.window) return place.window->memory + identity_.window_offset + place.offset;
  const std::byte* const memory = place.output ? binding_.output : binding_.input;
  return const_cast<std::byte*>(memory) + place.offset;
}

std::atomic<uint64_t>& CpuExecutor::flag_at(const ShortPlace& place) const {
  return LlLine::flag_at(memory_of(place));
}

// What went to a window is there for others.
void CpuExecutor::hand_out(const ShortFold& part, const ShortStep& step, uint64_t flag,
                           std::byte* target) {
  if (step.lined) LlLine::flag_at(target + part.bytes).store(flag, std::memory_order_release);
  if (part.hands_over) hand_over(target, part.bytes);
}

void CpuExecutor::copy(const ShortFold& part, const ShortStep& step, uint64_t flag) const {
  const std::byte* const from = memory_of(part.sources[0]);
  for (size_t k = 0; k < part.targets.size(); ++k) {
    std::byte* const to = memory_of(part.targets[k]);
    if (to != from) copy_bytes(to, from, part.bytes, step.whole->way_to(k));
    if (part.targets[k].window) hand_out(part, step, flag, to);
  }
}

void CpuExecutor::fold(const ShortFold& part, const ShortStep& step, uint64_t flag,
                       Cursor& at) const {
  Places places;
  places.scaled = step.scaled;
  for (const ShortPlace& source : part.sources) places.source[places.sources++] = memory_of(source);
  for (const ShortPlace& target : part.targets) places.target[places.targets++] = memory_of(target);
  if (step.lined)
    fold(*step.whole, places, part.count, uint64_t{0});
  else
    fold(*step.whole, places, part.count, at);
  for (size_t k = 0; k < part.targets.size(); ++k)
    if (part.targets[k].window)
      hand_out(part, step, flag, static_cast<std::byte*>(places.target[k]));
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
    const std::atomic<uint64_t>& there = flag_at(place);
    if (there.load(std::memory_order_acquire) == flag) [[likely]]
      continue;
    const Move move = arrived(there, place.rank, flag);
    if (move != Move::complete) return move;
  }
  for (const ShortFold& part : step.folds)
    if (part.copies)
      copy(part, step, flag);
    else
      fold(part, step, flag, at);
  if (step.signals) leave(*step.whole);
  at.entered = false;
  return Move::complete;
}

CpuExecutor::Move CpuExecutor::run_short(Cursor& at) {
  const uint32_t first = at.step;
  const ShortStep* const end = plan_->short_steps.data() + plan_->short_steps.size();
  for (const ShortStep* step = plan_->short_steps.data() + first; step != end; ++step, ++at.step) {
    const Move move = run_short(*step, at);
    if (move == Move::failed) return move;
    if (move == Move::blocked) return at.step == first ? move : Move::moved;
  }
  end_turn(at);
  at.finished = true;
  lanes_left_ = 0;
  return Move::complete;
}

CpuExecutor::Progress CpuExecutor::poll_short() {
  const bool first = cursors_[0].step == 0;
  switch (run_short(cursors_[0])) {
    case Move::complete: return Progress::done;
    case Move::failed: return Progress::failed;
    case Move::blocked: return Progress::blocked;
    case Move::moved: break;
  }
  if (first) claim_next();
  return Progress::moved;
}

// For the call after this one, which most often leases as much, behind this one. A hint: a peer
// that still reads what is claimed, some calls behind, only has to fetch it again.
void CpuExecutor::claim_next() const {
  const size_t left = plan_->window_end() - identity_.window_offset;  // to where the lap ends
  for (const ShortClaim& claim : plan_->short_claims)
    if (claim.offset + claim.bytes <= left)
      claim_memory(claim.window->memory + identity_.window_offset + claim.offset, claim.bytes);
}

}  // namespace weft
