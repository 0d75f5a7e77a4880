#include "engine/executor/cpu_executor.h"

#include <algorithm>
#include <cstring>

#include "base/hash.h"
#include "engine/executor/window_state.h"

namespace weft {
namespace {}  // namespace

void CpuExecutor::start(Plan& plan, const Binding& binding, const CallIdentity& identity) {
  plan_ = &plan;
  binding_ = binding;
  identity_ = identity;
  cursors_.assign(plan.lanes.size(), Cursor{});
  for (size_t i = 0; i < plan.lanes.size(); ++i)
    cursors_[i].round = static_cast<size_t>(plan.lanes[i].copy);
  lanes_left_ = plan.lanes.size();
  started_ = false;
  failure_ = Status();
}

// Windows must be mapped, and all ranks done with the calls that used the leased space before.
bool CpuExecutor::may_start() {
  for (const Window* window : plan_->windows)
    if (window->memory == nullptr) return false;
  if (identity_.finished_before > 0) {
    for (Rank r = 0; r < media_.ranks(); ++r) {
      uint64_t& known = windows_.finished(r);
      if (known >= identity_.finished_before) continue;
      known = WindowLayout::finished(plan_->windows[r]->memory).load(std::memory_order_acquire);
      if (known < identity_.finished_before) return false;
    }
  }
  started_ = true;
  return true;
}

CpuExecutor::Progress CpuExecutor::poll() {
  if (!started_ && !may_start()) return Progress::blocked;
  bool moved = false;
  for (size_t i = 0; i < cursors_.size(); ++i) {
    if (cursors_[i].finished) continue;
    const Move move = run_lane(plan_->lanes[i], cursors_[i]);
    if (move == Move::failed) return Progress::failed;
    moved |= move == Move::moved;
  }
  if (lanes_left_ == 0) {
    for (SendLink* link : plan_->send_links)
      if (!link->flushed()) return moved ? Progress::moved : Progress::blocked;
    finish_call();
    return Progress::done;
  }
  return moved ? Progress::moved : Progress::blocked;
}

void CpuExecutor::finish_call() {
  for (const Plan::Expected& e : plan_->expected) windows_.expected(e.peer, e.cell) += e.posts;
  if (identity_.window_call > 0)
    WindowLayout::finished(plan_->windows[media_.me()]->memory)
        .store(identity_.window_call, std::memory_order_release);
  plan_ = nullptr;
}

CpuExecutor::Move CpuExecutor::run_lane(const PlanLane& lane, Cursor& at) {
  bool moved = false;
  while (!at.finished) {
    const Move move = run_step(lane, lane.steps[at.step], at);
    if (move == Move::failed) return move;
    if (move == Move::blocked) return moved ? Move::moved : Move::blocked;
    moved = true;
  }
  return Move::moved;
}

// Blocked without having done anything, moved, or failed.
CpuExecutor::Move CpuExecutor::run_step(const PlanLane& lane, const PlanStep& step, Cursor& at) {
  if (!at.entered) {
    const Move signal = signalled(lane, step, at);
    if (signal != Move::complete) return signal;
    enter(step, at);
  }
  if (at.size > 0) {
    const Move result = move(step, at);
    if (result != Move::complete) return result;
  }
  leave(step);
  next(lane, step, at);
  return Move::moved;
}

// The count that a wait is for; 0 where it is met from the start.
uint64_t CpuExecutor::needed(const PlanLane& lane, const Signal& wait, const Cursor& at) const {
  const uint64_t round = (at.round - lane.copy) / plan_->copies;
  const auto lag = static_cast<uint64_t>(wait.lag);
  return round < lag ? 0 : windows_.expected(wait.peer, wait.cell) + round - lag + 1;
}

CpuExecutor::Move CpuExecutor::signalled(const PlanLane& lane, const PlanStep& step,
                                         const Cursor& at) {
  for (const Signal& wait : step.waits) {
    const uint64_t count = needed(lane, wait, at);
    if (count == 0) continue;
    const uint64_t seen =
        WindowLayout::cell(plan_->windows[media_.me()]->memory, wait.peer, wait.cell)
            .load(std::memory_order_acquire);
    if (signal_count(seen) < count) return Move::blocked;
    if (signal_count(seen) == count && !same_call(seen, identity_.tag))
      return fail(Status(Code::mismatch, "it is in a call with other arguments", wait.peer));
  }
  return Move::complete;
}

void CpuExecutor::enter(const PlanStep& step, Cursor& at) {
  const Layout& layout = plan_->layout;
  const int chunk = chunk_at(step, at.time, plan_->chunks);
  const Extent extent = layout.extent(chunk, at.round, plan_->segment);
  at.size = extent.size;
  at.position = 0;
  at.in_offset = at.out_filled = 0;
  at.first_ticket = at.last_ticket = 0;
  at.entered = true;
  if (extent.size == 0) return;
  // Where ranks know the sizes of their own pairs only, each message vouches for its chunk's size.
  at.tag = plan_->sizes_in_tags ? mix(identity_.tag, layout.size(chunk)) : identity_.tag;
  const size_t bytes = plan_->element_bytes;
  if (!binding_.group.empty()) {
    const int sent = layout.transfer(chunk, Transfer::Direction::send);
    const int received = layout.transfer(chunk, Transfer::Direction::receive);
    if (sent >= 0)
      at.input = static_cast<const std::byte*>(binding_.group[sent].memory) + extent.begin;
    if (received >= 0)
      at.output = static_cast<std::byte*>(binding_.group[received].memory) + extent.begin;
    return;
  }
  at.input = binding_.input + (layout.input_offset(chunk) + extent.begin) * bytes;
  at.output = binding_.output + (layout.output_offset(chunk) + extent.begin) * bytes;
}

void CpuExecutor::leave(const PlanStep& step) {
  for (const Signal& post : step.posts)
    WindowLayout::cell(plan_->windows[post.peer]->memory, media_.me(), post.cell)
        .store(signal_value(++windows_.posted(post.peer, post.cell), identity_.tag),
               std::memory_order_release);
  for (const Rank peer : step.wakes) media_.wake(peer);
}

void CpuExecutor::next(const PlanLane& lane, const PlanStep& step, Cursor& at) {
  at.entered = false;
  if (++at.time < step.times) return;
  at.time = 0;
  if (++at.step < lane.steps.size()) return;
  at.step = 0;
  at.round += plan_->copies;
  if (at.round < lane.rounds) return;
  at.finished = true;
  --lanes_left_;
}

CpuExecutor::Move CpuExecutor::fail(Status status) {
  failure_ = std::move(status);
  return Move::failed;
}

std::byte* CpuExecutor::address(const Operand& operand, const Cursor& at) const {
  switch (operand.buffer) {
    case Buffer::input: return const_cast<std::byte*>(at.input);
    case Buffer::output: return at.output;
    case Buffer::scratch: {
      const auto begin = reinterpret_cast<uintptr_t>(plan_->scratch.data());
      return reinterpret_cast<std::byte*>((begin + 63) / 64 * 64) +
             operand.slot * plan_->scratch_slot_bytes;
    }
    default: {
      const size_t half = at.round / plan_->copies % plan_->window_halves;
      const size_t slot = half * plan_->window_slots + operand.slot;
      return plan_->windows[operand.rank]->memory + identity_.window_offset +
             slot * plan_->window_slot_bytes;
    }
  }
}

LlLine* CpuExecutor::line(const Operand& operand, const Cursor& at) const {
  return reinterpret_cast<LlLine*>(address(operand, at)) +
         at.position / LlLine::elements(plan_->element_bytes);
}

void CpuExecutor::fold(const PlanStep& step, const Cursor& at, const std::byte* message,
                       std::byte* slot, size_t count, Unpacked* unpacked) const {
  const void* sources[ReduceCall::kMaxSources];
  void* targets[3];
  int source_count = 0, target_count = 0;
  uint64_t scaled = 0;
  const size_t offset = at.position * plan_->element_bytes;
  if (message) sources[source_count++] = message;
  for (size_t i = 0; i < step.sources.size(); ++i) {
    const Operand& o = step.sources[i];
    if (plan_->scales && o.buffer == Buffer::input) scaled |= uint64_t{1} << source_count;
    const bool in_lines = unpacked && o.buffer == Buffer::window;
    sources[source_count++] = in_lines ? unpacked->sources[i] : address(o, at) + offset;
  }
  for (const Operand& o : step.targets) {
    const bool in_lines = unpacked && o.buffer == Buffer::window;
    targets[target_count++] = in_lines ? unpacked->target : address(o, at) + offset;
  }
  if (slot) targets[target_count++] = slot;
  const int64_t divisor = step.finish ? plan_->divisor : 1;
  const size_t bytes = count * plan_->element_bytes;
  const bool streaming =
      plan_->request.streaming && !step.targets.empty() && step.targets[0].buffer == Buffer::output;
  if (source_count == 1 && scaled == 0 && divisor == 1) {
    for (int i = 0; i < target_count; ++i)
      if (targets[i] != sources[0]) copy_bytes(targets[i], sources[0], bytes, streaming && i == 0);
    return;
  }
  ReduceCall call{.sources = sources,
                  .source_count = source_count,
                  .targets = targets,
                  .target_count = std::min(2, target_count),
                  .count = count,
                  .scalar = binding_.scalar,
                  .scaled = scaled,
                  .divisor = divisor,
                  .streaming = streaming};
  plan_->kernel(call);
  if (target_count == 3) copy_bytes(targets[2], targets[0], bytes, false);
}

CpuExecutor::Move CpuExecutor::move(const PlanStep& step, Cursor& at) {
  if (step.lines) return move_lines(step, at);
  if (step.sends_memory) return send_memory(step, at);
  if (step.receives_memory) return receive_memory(step, at);
  if (step.from || step.to) return move_linked(step, at);
  return move_local(step, at);
}

CpuExecutor::Move CpuExecutor::move_local(const PlanStep& step, Cursor& at) {
  if (!step.sources.empty()) fold(step, at, nullptr, nullptr, at.size);
  return Move::complete;
}

// Lines each carry their own flag. A few at a time are unpacked, folded in one go, and packed
// again.
CpuExecutor::Move CpuExecutor::move_lines(const PlanStep& step, Cursor& at) {
  const size_t per_line = LlLine::elements(plan_->element_bytes);
  const size_t begin = at.position;
  while (at.position < at.size) {
    const size_t count = std::min(per_line * kLineBatch, at.size - at.position);
    const size_t lines = (count + per_line - 1) / per_line;
    Unpacked unpacked;
    switch (unpack(step, at, lines, unpacked)) {
      case Move::complete: break;
      case Move::failed: return Move::failed;
      default: return at.position == begin ? Move::blocked : Move::moved;
    }
    fold(step, at, nullptr, nullptr, count, &unpacked);
    pack(step, at, lines, unpacked);
    at.position += count;
  }
  return Move::complete;
}

// The payload of the window sources' next lines; blocked until all of them are there.
CpuExecutor::Move CpuExecutor::unpack(const PlanStep& step, const Cursor& at, size_t lines,
                                      Unpacked& unpacked) {
  const uint64_t flag = signal_value(identity_.ll_serial + at.round, identity_.tag);
  const size_t payload = LlLine::elements(plan_->element_bytes) * plan_->element_bytes;
  for (size_t i = 0; i < step.sources.size(); ++i) {
    if (step.sources[i].buffer != Buffer::window) continue;
    const LlLine* from = line(step.sources[i], at);
    for (size_t l = 0; l < lines; ++l) {
      const uint64_t seen = from[l].flag.load(std::memory_order_acquire);
      if (seen != flag) {
        if (signal_count(seen) != signal_count(flag)) return Move::blocked;
        return fail(
            Status(Code::mismatch, "it is in a call with other arguments", step.sources[i].rank));
      }
      std::memcpy(unpacked.sources[i] + l * payload, from[l].payload, LlLine::kPayload);
    }
  }
  return Move::complete;
}

void CpuExecutor::pack(const PlanStep& step, const Cursor& at, size_t lines,
                       const Unpacked& unpacked) const {
  const uint64_t flag = signal_value(identity_.ll_serial + at.round, identity_.tag);
  const size_t payload = LlLine::elements(plan_->element_bytes) * plan_->element_bytes;
  for (const Operand& target : step.targets) {
    if (target.buffer != Buffer::window) continue;
    LlLine* to = line(target, at);
    for (size_t l = 0; l < lines; ++l) {
      std::memcpy(to[l].payload, unpacked.target + l * payload, LlLine::kPayload);
      to[l].flag.store(flag, std::memory_order_release);
    }
  }
}

bool CpuExecutor::message_fits(const PlanStep& step, const Cursor& at, size_t bytes, uint64_t tag) {
  if (tag != at.tag) {
    fail(Status(Code::mismatch, "it sent data of a call with other arguments", step.from_peer));
    return false;
  }
  const size_t left = (at.size - at.position) * plan_->element_bytes;
  if (bytes <= left && bytes % plan_->element_bytes == 0) return true;
  fail(Status(Code::mismatch,
              "it sent a message of " + std::to_string(bytes) + " bytes where at most " +
                  std::to_string(left) + " were expected",
              step.from_peer));
  return false;
}

// Through link slots: what arrives, folded with the sources, goes to the targets and on to the next
// rank, piece by piece as messages and slots allow.
CpuExecutor::Move CpuExecutor::move_linked(const PlanStep& step, Cursor& at) {
  const size_t bytes = plan_->element_bytes;
  const size_t begin = at.position;
  const auto blocked = [&] { return at.position == begin ? Move::blocked : Move::moved; };
  while (at.position < at.size) {
    size_t count = at.size - at.position;
    const Message* message = nullptr;
    if (step.from) {
      message = step.from->peek();
      if (!message) return blocked();
      if (at.in_offset == 0 && !message_fits(step, at, message->data.size(), message->tag))
        return Move::failed;
      count = std::min(count, (message->data.size() - at.in_offset) / bytes);
    }
    Bytes slot;
    if (step.to) {
      slot = step.to->reserve();
      if (slot.empty()) return blocked();
      count = std::min(count, (slot.size() - at.out_filled) / bytes);
    }
    fold(step, at, message ? message->data.data() + at.in_offset : nullptr,
         step.to ? slot.data() + at.out_filled : nullptr, count);
    at.position += count;
    if (step.from) {
      at.in_offset += count * bytes;
      if (at.in_offset == message->data.size()) {
        step.from->release();
        at.in_offset = 0;
      }
    }
    if (step.to) {
      at.out_filled += count * bytes;
      if (at.out_filled + bytes > slot.size() || at.position == at.size) {
        step.to->commit(at.out_filled, at.tag);
        at.out_filled = 0;
      }
    }
  }
  return Move::complete;
}

CpuExecutor::Move CpuExecutor::send_memory(const PlanStep& step, Cursor& at) {
  const size_t bytes = plan_->element_bytes;
  bool moved = false;
  while (at.position < at.size) {
    const size_t count = std::min(at.size - at.position, step.to->shape().slot_bytes / bytes);
    const std::byte* memory = address(step.sources[0], at) + at.position * bytes;
    const auto ticket = step.to->send({memory, count * bytes}, at.tag);
    if (!ticket) return moved ? Move::moved : Move::blocked;
    if (at.first_ticket == 0) at.first_ticket = *ticket;
    at.last_ticket = *ticket;
    at.position += count;
    moved = true;
  }
  while (at.first_ticket != 0 && at.first_ticket <= at.last_ticket) {
    if (!step.to->done(at.first_ticket)) return moved ? Move::moved : Move::blocked;
    ++at.first_ticket;
  }
  return Move::complete;
}

// Posts the target's memory for the next message; what has already arrived in a slot is copied.
CpuExecutor::Move CpuExecutor::receive_memory(const PlanStep& step, Cursor& at) {
  const size_t bytes = plan_->element_bytes;
  const size_t begin = at.position;
  const auto blocked = [&] { return at.position == begin ? Move::blocked : Move::moved; };
  while (at.position < at.size) {
    std::byte* memory = address(step.targets[0], at) + at.position * bytes;
    if (at.first_ticket == 0) {
      const size_t room =
          std::min<size_t>((at.size - at.position) * bytes, step.from->shape().slot_bytes);
      if (const auto ticket = step.from->post({memory, room})) at.first_ticket = *ticket;
    }
    size_t arrived = 0;
    if (at.first_ticket != 0) {
      const auto placed = step.from->done(at.first_ticket);
      if (!placed) return blocked();
      at.first_ticket = 0;
      if (!message_fits(step, at, placed->bytes, placed->tag)) return Move::failed;
      arrived = placed->bytes;
    } else {
      const Message* message = step.from->peek();
      if (!message) return blocked();
      if (!message_fits(step, at, message->data.size(), message->tag)) return Move::failed;
      arrived = message->data.size();
      copy_bytes(memory, message->data.data(), arrived, false);
      step.from->release();
    }
    at.position += arrived / bytes;
  }
  return Move::complete;
}

}  // namespace weft
