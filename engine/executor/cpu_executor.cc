#include "engine/executor/cpu_executor.h"

#include <algorithm>

#include "base/hash.h"
#include "base/text.h"
#include "engine/executor/shared_state.h"
#include "kernels/copy.h"

namespace weft {

void CpuExecutor::start(Plan& plan) {
  plan_ = &plan;
  started_ = false;
  short_ = !plan.short_steps.empty() && !shared_.trace;
  lanes_left_ = plan.lanes.size();
  if (cursors_.size() != lanes_left_) cursors_.resize(lanes_left_);
  const PlanLane* lane = plan.lanes.data();
  for (Cursor& at : cursors_) {
    at.restart(static_cast<size_t>(lane++->copy), identity_.window_offset);
    begin_turn(at);
  }
  if (!failure_.ok()) failure_ = Status();
  if (plan.scratch_slots > 0) provide_scratch(plan.scratch_slots * plan.scratch_slot_bytes);
}

// Without it the call never starts, and check() says why.
void CpuExecutor::provide_scratch(size_t bytes) {
  scratch_ = shared_.scratch(bytes);
  if (scratch_) return;
  failure_ = Status(Code::system,
                    concat("Cannot allocate memory for what the call holds on its way, ", bytes,
                           " bytes; let the process have more (ulimit -v), or cut calls into ",
                           "smaller pieces (WEFT_CHUNK)"),
                    media_.me());
}

// Windows must be mapped, and all ranks done with the calls that used the leased space before.
bool CpuExecutor::may_start() {
  if (!failure_.ok()) return false;
  if (!plan_->mapped) {
    for (const Window* window : plan_->windows)
      if (window->memory == nullptr) return false;
    plan_->mapped = true;
  }
  if (identity_.finished_before > shared_.finished_by_all && !lease_is_free()) return false;
  started_ = true;
  return true;
}

bool CpuExecutor::lease_is_free() {
  uint64_t least = ~uint64_t{0};
  for (Rank r = 0; r < media_.ranks(); ++r) {
    if (!lease_is_free_of(r)) {
      awaited_ = r;
      return false;
    }
    least = std::min(least, shared_.finished(r));
  }
  shared_.finished_by_all = least;
  return true;
}

// Whether a rank has finished all calls that used this call's window space before.
bool CpuExecutor::lease_is_free_of(Rank rank) const {
  uint64_t& known = shared_.finished(rank);
  if (known < identity_.finished_before)
    known = WindowLayout::finished(plan_->windows[rank]->memory).load(std::memory_order_acquire);
  return known >= identity_.finished_before;
}

void CpuExecutor::finish_call() {
  if (plan_->stores) plan_->turns += plan_->rounds_of(0);
  for (const Plan::Expected& e : plan_->expected) shared_.expected(e.peer, e.cell) += e.posts;
  if (identity_.window_call > 0)
    WindowLayout::finished(plan_->windows[media_.me()]->memory)
        .store(identity_.window_call, std::memory_order_release);
  plan_ = nullptr;
}

CpuExecutor::Progress CpuExecutor::poll() {
  if (!started_ && !may_start()) return Progress::blocked;
  const Progress progress = short_ ? poll_short() : poll_lanes();
  if (progress == Progress::done) finish_call();
  return progress;
}

CpuExecutor::Progress CpuExecutor::poll_lanes() {
  bool moved = false;
  for (size_t i = 0; i < cursors_.size(); ++i) {
    if (cursors_[i].finished) continue;
    const Move move = run_lane(plan_->lanes[i], cursors_[i]);
    if (move == Move::failed) return Progress::failed;
    moved |= move == Move::moved;
  }
  if (lanes_left_ == 0) {
    for (const Plan::Outgoing& out : plan_->send_links)
      if (!out.link->flushed()) {
        awaited_ = out.peer;
        return moved ? Progress::moved : Progress::blocked;
      }
    return Progress::done;
  }
  return moved ? Progress::moved : Progress::blocked;
}

CpuExecutor::Move CpuExecutor::run_lane(const PlanLane& lane, Cursor& at) {
  bool moved = false;
  StepRing* const trace = shared_.trace.get();
  while (!at.finished) {
    const Move move =
        trace ? run_traced(lane, at, *trace) : run_step(lane, lane.steps[at.step], at);
    if (move == Move::failed) return move;
    if (move == Move::blocked) return moved ? Move::moved : Move::blocked;
    moved = true;
    if (at.entered && lane.steps[at.step].pulls) break;  // a piece of it
  }
  return Move::moved;
}

// Blocked without having done anything, moved, or failed.
CpuExecutor::Move CpuExecutor::run_step(const PlanLane& lane, const PlanStep& step, Cursor& at) {
  if (!at.entered) {
    const Move signal = signalled(step, at);
    if (signal != Move::complete) return signal;
    enter(step, at);
  }
  if (at.size > 0 || at.empty_message) {
    const Move result = at.empty_message ? move_nothing(step, at) : move(step, at);
    if (result == Move::blocked && !step.lines && !step.pulls)
      return blocked_by(step.from ? step.from_peer : step.to_peer);
    if (result != Move::complete) return result;
  }
  leave(step);
  next(lane, step, at);
  return Move::moved;
}

// The count that a wait is for; 0 where it is met from the start.
uint64_t CpuExecutor::needed(const Signal& wait, const Cursor& at) const {
  const auto lag = static_cast<uint64_t>(wait.lag);
  return at.turn < lag ? 0 : shared_.expected(wait.peer, wait.cell) + at.turn - lag + 1;
}

// As the cell says: in it the poster counts.
uint64_t CpuExecutor::seen(const Signal& wait) const {
  return WindowLayout::cell(plan_->windows[media_.me()]->memory, wait.peer, wait.cell)
      .load(std::memory_order_acquire);
}

CpuExecutor::Move CpuExecutor::signalled(const PlanStep& step, const Cursor& at) {
  for (const Signal& wait : step.waits) {
    const uint64_t count = needed(wait, at);
    if (count == 0) continue;
    const uint64_t posted = seen(wait);
    const int32_t missing = posts_missing(posted, count);
    if (missing > 0) return blocked_by(wait.peer);
    if (missing == 0 && !same_call(posted, identity_.tag))
      return fail(Status(Code::mismatch,
                         "it is in a call with other arguments, or was in one before", wait.peer));
  }
  return Move::complete;
}

void CpuExecutor::enter(const PlanStep& step, Cursor& at) {
  const int chunk = step.times == 1 ? step.chunk : chunk_at(step, at.time, plan_->chunks);
  const ChunkPlace place = step.times == 1 ? step.first : plan_->place(chunk);
  const size_t begin = std::min(place.size, at.round * plan_->segment);
  at.size = std::min(plan_->segment, place.size - begin);
  at.position = at.line = 0;
  at.entered = true;
  at.empty_message = false;
  if (step.from || step.to) enter_message(step, at);
  if (at.size == 0) return;
  if (!binding_.group.empty()) return enter_transfers(chunk, begin, at);
  at.chunk = chunk;
  at.begin = begin;
  const size_t bytes = plan_->element_bytes;
  // Null where this rank has none.
  if (binding_.input) at.input = binding_.input + (place.input + begin) * bytes;
  if (binding_.output) at.output = binding_.output + (place.output + begin) * bytes;
}

// A group's chunk is the caller's memory of a transfer.
void CpuExecutor::enter_transfers(int chunk, size_t begin, Cursor& at) {
  const int sent = plan_->layout.transfer(chunk, Transfer::Direction::send);
  const int received = plan_->layout.transfer(chunk, Transfer::Direction::receive);
  if (sent >= 0) at.input = static_cast<const std::byte*>(binding_.group[sent].memory) + begin;
  if (received >= 0) at.output = static_cast<std::byte*>(binding_.group[received].memory) + begin;
}

// Where ranks know the sizes of their own pairs only, each message vouches for its chunks' sizes,
// and one of no bytes is sent, too: else an end that has nothing would never meet one that has.
// That of a group vouches for its place among all between the two.
void CpuExecutor::enter_message(const PlanStep& step, Cursor& at) {
  if (!step.begins) {
    at.rest -= at.size;
    return;
  }
  const Layout& layout = plan_->layout;
  at.in_offset = at.out_filled = 0;
  at.first_ticket = at.last_ticket = 0;
  at.rest = 0;
  at.tag = identity_.tag;
  if (plan_->sizes_in_tags)
    at.tag = mix(at.tag, layout.size(chunk_at(step, at.time, plan_->chunks)));
  if (plan_->numbered)
    at.tag =
        mix(at.tag, step.to ? ++shared_.sent(step.to_peer) : ++shared_.received(step.from_peer));
  for (const PlanStep* more = &step; !more->ends;) {
    ++more;
    at.rest += layout.extent(more->chunk, at.round, plan_->segment).size;
    if (plan_->sizes_in_tags) at.tag = mix(at.tag, layout.size(more->chunk));
  }
  at.empty_message = plan_->sizes_in_tags && at.round == 0 && at.size == 0 && at.rest == 0;
}

void CpuExecutor::leave(const PlanStep& step) {
  for (const Signal& post : step.posts)
    WindowLayout::cell(plan_->windows[post.peer]->memory, media_.me(), post.cell)
        .store(signal_value(++shared_.posted(post.peer, post.cell), identity_.tag),
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
  end_turn(at);
  if (at.round >= lane.rounds) {
    at.finished = true;
    --lanes_left_;
    return;
  }
  ++at.turn;
  begin_turn(at);
  at.window = identity_.window_offset + at.turn % plan_->window_halves * plan_->half_bytes();
}

CpuExecutor::Move CpuExecutor::blocked_by(Rank peer) {
  awaited_ = peer;
  return Move::blocked;
}

CpuExecutor::Move CpuExecutor::fail(Status status) {
  failure_ = std::move(status);
  return Move::failed;
}

CpuExecutor::Move CpuExecutor::move(const PlanStep& step, Cursor& at) {
  if (step.lines) return move_lines(step, at);
  if (step.sends_memory) return send_memory(step, at);
  if (step.receives_memory) return receive_memory(step, at);
  if (step.pulls) return pull(step, at);
  if (step.from || step.to) return move_linked(step, at);
  return move_local(step, at);
}

// What goes to several places goes to all of them while it is in the cache.
CpuExecutor::Move CpuExecutor::move_local(const PlanStep& step, Cursor& at) {
  constexpr size_t kOwnCacheBytes = 32 << 10;
  if (step.sources.empty()) return Move::complete;
  const size_t kept_in_registers = step.sources.size() == 1 ? 1 : 2;
  const size_t part = step.targets.size() > kept_in_registers
                          ? std::max<size_t>(1, kOwnCacheBytes / plan_->element_bytes)
                          : at.size;
  while (at.position < at.size) {
    const size_t count = std::min(part, at.size - at.position);
    Places places;
    locate(step, at, count, places);
    fold(step, places, count, at);
    at.position += count;
  }
  return Move::complete;
}

// Lines each carry their own flag, and are folded where they lie.
CpuExecutor::Move CpuExecutor::move_lines(const PlanStep& step, Cursor& at) {
  const uint64_t flag = signal_value(identity_.ll_serial + at.round, identity_.tag);
  bool moved = false;
  for (; at.position < at.size; ++at.line, moved = true) {
    const Move there = arrived(step, at, flag);
    if (there == Move::blocked && moved) return Move::moved;
    if (there != Move::complete) return there;
    const size_t count = std::min(plan_->line_elements, at.size - at.position);
    Places places;
    locate(step, at, count, places);
    fold(step, places, count, at);
    for (const Operand& target : step.targets)
      if (target.buffer == Buffer::window)
        line(target, at)->flag.store(flag, std::memory_order_release);
    at.position += count;
  }
  return Move::complete;
}

// Whether the line at hand is there from all window sources.
CpuExecutor::Move CpuExecutor::arrived(const PlanStep& step, const Cursor& at, uint64_t flag) {
  for (const Operand& source : step.sources) {
    if (source.buffer != Buffer::window) continue;
    const Move there = arrived(line(source, at)->flag, source.rank, flag);
    if (there != Move::complete) return there;
  }
  return Move::complete;
}

CpuExecutor::Move CpuExecutor::arrived(const std::atomic<uint64_t>& flag, Rank from,
                                       uint64_t expected) {
  const uint64_t seen = flag.load(std::memory_order_acquire);
  if (seen == expected) return Move::complete;
  if (seen == kNeverWritten || signal_count(seen) != signal_count(expected))
    return blocked_by(from);
  return fail(
      Status(Code::mismatch, "it is in a call with other arguments, or was in one before", from));
}

bool CpuExecutor::message_fits(const PlanStep& step, const Cursor& at, size_t bytes, uint64_t tag) {
  if (tag != at.tag) {
    fail(Status(Code::mismatch, "it sent data of a call with other arguments, or was in one before",
                step.from_peer));
    return false;
  }
  const size_t left = (at.size - at.position + at.rest) * plan_->element_bytes;
  if (bytes <= left && bytes % plan_->element_bytes == 0) return true;
  fail(Status(Code::mismatch,
              "it sent a message of " + std::to_string(bytes) + " bytes where at most " +
                  std::to_string(left) + " were expected",
              step.from_peer));
  return false;
}

// A message without chunks, by slots also where others go from memory to memory.
CpuExecutor::Move CpuExecutor::move_nothing(const PlanStep& step, Cursor& at) {
  if (step.from) {
    const Message* const message = step.from->peek();
    if (!message) return Move::blocked;
    if (!message_fits(step, at, message->data.size(), message->tag)) return Move::failed;
  }
  if (step.to) {
    if (step.to->reserve().empty()) return Move::blocked;
    step.to->commit(0, at.tag);
  }
  if (step.from) step.from->release();
  return Move::complete;
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
    Places places;
    if (message) places.source[places.sources++] = message->data.data() + at.in_offset;
    locate(step, at, count, places);
    if (step.to) places.target[places.targets++] = slot.data() + at.out_filled;
    fold(step, places, count, at);
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
      const bool last = at.position == at.size && at.rest == 0;
      if (at.out_filled + bytes > slot.size() || last) {
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
      copy_bytes(memory, message->data.data(), arrived, CopyWay::taken);
      step.from->release();
    }
    at.position += arrived / bytes;
  }
  return Move::complete;
}

// Where the peer has given up there is nothing more to come of it but the word that it has.
CpuExecutor::Move CpuExecutor::pull(const PlanStep& step, Cursor& at) {
  constexpr size_t kAtOnce = 1 << 20;  // then others, and deadlines, have their turn
  const Rank peer = step.sources[0].rank;
  const size_t bytes = plan_->element_bytes;
  const size_t count = std::min(at.size - at.position, kAtOnce / bytes);
  const size_t place = plan_->layout.input_offset(at.chunk, peer) + at.begin + at.position;
  const Result<bool> read = media_.read_memory(
      peer, binding_.mapped[static_cast<size_t>(peer)].input_there + place * bytes,
      {at.output + at.position * bytes, count * bytes});
  if (!read.ok()) return fail(read.status());
  if (!*read) return blocked_by(peer);
  at.position += count;
  return at.position < at.size ? Move::moved : Move::complete;
}

}  // namespace weft
