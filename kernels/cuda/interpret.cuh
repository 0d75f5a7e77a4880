// The interpreter: one launch does a rank's part of one call (kernels/device_program.h says what
// that is). A block is a worker. It has lanes blockIdx.x, blockIdx.x + gridDim.x, ... and goes on
// with the next one while one is blocked, so all blocks of all ranks must be resident at once.
#pragma once

#include "kernels/cuda/copy.cuh"
#include "kernels/cuda/fold.cuh"
#include "kernels/cuda/packets.cuh"
#include "kernels/cuda/signal.cuh"
#include "kernels/cuda/worker.cuh"

namespace weft::device {

// All threads of a block have one each, and call all that is public together.
template <class T, class Op>
class Interpreter {
 public:
  // The program is kept() after the first barrier; what comes before it asks the one that is given.
  __device__ Interpreter(const Program& program, const Call& call, const Limits& limits,
                         Worker* worker)
      : p_(keep(program, *worker)),
        call_(call),
        limits_(limits),
        w_(*worker),
        watch_(limits, program.failed),
        call_number_(program.state->calls + 1),
        window_call_(program.state->window_calls + 1),
        lease_(program.windowed ? lease_of(program, window_call_) : Need{}),
        failed_(ptx::load_relaxed_sys(program.failed) != 0),
        lanes_((program.lane_count + gridDim.x - 1 - blockIdx.x) / gridDim.x) {
    const uint32_t history = mix_digests(program.state->history, program.digest);
    if (threadIdx.x == 0) worker->history = history;
    // Behind a call that gave up this one does not begin, and has the number of that one.
    if (program.windowed && !failed_) publish_begun(program, history);
  }

  __device__ void run() {
    const int lanes = lanes_;
    for (int i = threadIdx.x; i < lanes; i += blockDim.x) {
      w_.cursors[i] = {};
      w_.ended[i] = false;
    }
    if (__syncthreads_or(failed_ || !is_met(lease_))) {
      // By vote, as a block of this launch may claim the report while the others begin.
      if (__syncthreads_or(failed_) || !await_lease()) return;
    }
    if (p_.tell != nullptr && !tell_buffers()) return;
    int live = lanes;
    for (int i = 0; live != 0; i = i + 1 < lanes ? i + 1 : 0) {
      if (w_.ended[i]) continue;
      if (!run_lane(i, live == 1)) return;
      if (w_.ended[i]) --live;
    }
    depart();
  }

 private:
  static constexpr int kPollsAlone = 64;  // of a worker with nothing else to do
  static constexpr int kTriesPerLook = 64;

  // Where a lane is, for the length of a step.
  struct Here {
    const Lane& lane;
    const Step& step;
    const Place& place;
    Cursor at;
    uint64_t begin, size;
    bool message;  // the step's messages are there

    // Else no thread has a need.
    __device__ bool may_wait() const { return step.waits != 0 || (step.begins && message); }
  };

  __device__ Here here(int i) const {
    const Lane& lane = p_.lanes[blockIdx.x + i * gridDim.x];
    const Cursor at = w_.cursors[i];
    const Step& step = step_at(p_, lane, at);
    const Place& place = place_at(p_, step, at);
    const uint64_t begin = begin_of(p_, round_at(p_, lane, at));
    return {lane, step, place, at, begin, size_of(p_, place, begin), has_message(place, begin)};
  }

  // Does steps of the lane until it is blocked or has ended. False: the worker has given up.
  __device__ bool run_lane(int i, bool alone) {
    while (!w_.ended[i]) {
      const Here h = here(i);
      uint32_t stated = w_.history;
      if (h.may_wait()) {
        Need need = need_of(h, threadIdx.x);
        if (!all_met(need, alone ? kPollsAlone : 1)) {
          if (gives_up(need, &h)) return false;
          if (!alone) return true;
          continue;
        }
        stated = stated_with(need);
      }
      watch_.progress();
      prepare(h);
      if (__syncthreads_or(stated != w_.history)) return part(h, stated);
      if (is_clerk()) pass(h, i);
      if (p_.told != nullptr && !reach_buffers(h)) return false;
      if (!move_data(h)) return false;
      __syncthreads();
      post(h);
    }
    return true;
  }

  // One thread, of a warp that has less to do than the first, where there are several.
  static __device__ bool is_clerk() { return threadIdx.x == blockDim.x - 1; }

  // What thread `item` looks after before the step.
  __device__ Need need_of(const Here& h, uint32_t item) const {
    const Step& step = h.step;
    if (item < step.waits) {
      const Wait& wait = p_.waits[step.first_wait + item];
      const uint64_t value = needed_by(wait, h.at, call_number_);
      if (value == 0) return {};
      return {wait.cell, value, Awaited::signal, wait.peer};
    }
    if (!step.begins || !h.message) return {};
    if (item == step.waits && step.from >= 0) {
      const Receive& from = p_.receives[step.from];
      const uint64_t next = position_behind(*from.position, message_digest(p_, step, h.place));
      return {from.head, marked(count_of(next), 0), Awaited::message, from.peer, next};
    }
    if (item == step.waits + 1u && step.to >= 0) {
      const Send& to = p_.sends[step.to];
      return {to.credit, credit_needed(p_, *to.position), Awaited::credit, to.peer};
    }
    return {};
  }

  // What the peer has stated that the thread had to wait for: the history with the call which that
  // is that has come; this rank's where that is not known. Who compares does so later, as it has
  // to be loaded.
  __device__ uint32_t stated_with(const Need& need) const {
    if (need.cell == nullptr) return w_.history;
    if (states(need)) return static_cast<uint32_t>(begun_by(need.peer));
    const bool next = need.expected != 0 && count_of(need.seen) == count_of(need.expected);
    return next && need.seen != need.expected ? ~w_.history : w_.history;
  }
  // Whether the poster has said which call it has begun.
  __device__ bool states(const Need& need) const {
    return need.what == Awaited::signal && p_.windowed && p_.begun[need.peer] != nullptr;
  }
  __device__ uint64_t begun_by(int32_t peer) const {
    return ptx::load_relaxed_sys(p_.begun[peer] + window_call_ % kBegun);
  }
  // Whether the peer that the thread waits for is in another call, in vain.
  __device__ bool is_elsewhere(const Need& need) const {
    if (need.cell == nullptr || !states(need)) return false;
    const uint64_t begun = begun_by(need.peer), same = numbered(window_call_, w_.history);
    return number_of(begun) == number_of(same) && begun != same;
  }
  // From a peer that is in another call.
  __device__ bool part(const Here& h, uint32_t stated) {
    withdraw_buffers();
    if (stated != w_.history) {
      const bool signal = threadIdx.x < h.step.waits;
      const int32_t peer =
          signal ? p_.waits[h.step.first_wait + threadIdx.x].peer : p_.receives[h.step.from].peer;
      give_up(limits_, p_.failed, report(Cause::mismatched, &h),
              {nullptr, w_.history, signal ? Awaited::signal : Awaited::message, peer});
    }
    withdraw_buffers();
    return false;
  }

  // The step's operands, in shared memory; a part by each thread. What is read is read first: it
  // may lie in shared memory, too, and to load it again behind every store takes longest of all.
  __device__ void prepare(const Here& h) {
    const Step step = h.step;
    Operands& o = w_.operands.plain;
    const int received = step.from >= 0, sent = step.to >= 0;
    const int plain = step.targets - step.boxes;
    for (int k = threadIdx.x; k < received + step.sources; k += blockDim.x)
      o.sources[k] = k < received ? slot(p_.receives[step.from], step)
                                  : place_of(h, step.first_source + k - received);
    for (int t = threadIdx.x; t < sent + plain; t += blockDim.x)
      o.targets[t] = t < sent ? const_cast<std::byte*>(slot(p_.sends[step.to], step))
                              : place_of(h, step.first_target + t - sent);
    for (int b = threadIdx.x; b < step.boxes; b += blockDim.x)
      w_.operands.boxes[b] = place_of(h, step.first_target + plain + b);
    if (!is_clerk()) return;
    const uint64_t count = h.size * p_.element_bytes / sizeof(T);
    const int64_t divisor = step.finish ? p_.divisor : 1;
    w_.operands.box_count = step.boxes;
    set_bits(w_.operands.packets, step.boxed, received);
    w_.operands.flag = packet_flag(window_call_);
    w_.operands.call = w_.history;
    o.source_count = received + step.sources;
    o.target_count = sent + plain;
    o.count = count;
    set_bits(o.scaled, step.scaled, received);
    o.scalar = step.scaled == 0                 ? nullptr
               : call_.scalar_memory == nullptr ? call_.scalar
                                                : call_.scalar_memory;
    o.divisor = divisor;
    o.streaming = step.streaming;
  }

  // Where this rank's are, to all peers. Every worker does, before it posts; the barrier is that of
  // its first step. What another one has told already stays as it is.
  // False: one has given up, and may have taken back before what was told only now.
  __device__ bool tell_buffers() const {
    tell({address_of(call_.input), address_of(call_.output), numbered(call_number_, w_.history)});
    ptx::fence_sc_sys();
    if (!__syncthreads_or(ptx::load_relaxed_sys(p_.failed) != 0)) return true;
    withdraw_buffers();
    return false;
  }
  // Before the rank says that it has given up, and again when it has: see tell_buffers().
  __device__ void withdraw_buffers() const {
    if (p_.tell == nullptr) return;
    __syncthreads();
    ptx::fence_sc_sys();
    tell({0, 0, numbered(call_number_, w_.history)});
    __syncthreads();
  }
  __device__ void tell(const Told& what) const {
    for (int rank = threadIdx.x; rank < p_.ranks; rank += blockDim.x) {
      if (p_.tell[rank] == nullptr) continue;
      ptx::store_relaxed_sys(&p_.tell[rank]->input, what.input);
      ptx::store_relaxed_sys(&p_.tell[rank]->output, what.output);
      ptx::store_relaxed_sys(&p_.tell[rank]->call, what.call);
    }
  }

  // Operands that were prepared, from where peers have told that their buffers are. To be done when
  // their signals have been seen. False: a peer has given up or is in another call, and so the
  // worker has given up.
  __device__ bool reach_buffers(const Here& h) {
    const Step& step = h.step;
    Operands& o = w_.operands.plain;
    const int received = step.from >= 0, sent = step.to >= 0;
    Need gone;
    for (int k = threadIdx.x; k < step.sources; k += blockDim.x)
      reach(o.sources[received + k], step.first_source + k, &gone);
    for (int t = threadIdx.x; t < step.targets - step.boxes; t += blockDim.x)
      reach(o.targets[sent + t], step.first_target + t, &gone);
    if (__syncthreads_or(gone.peer >= 0) == 0) return true;
    withdraw_buffers();
    if (gone.peer >= 0) {
      const bool elsewhere = gone.seen != gone.expected;
      give_up(limits_, p_.failed, report(elsewhere ? Cause::mismatched : Cause::aborted, &h), gone);
    }
    withdraw_buffers();
    return false;
  }
  template <class Pointer>
  __device__ void reach(Pointer& address, uint32_t operand, Need* gone) const {
    const Operand& o = p_.operands[operand];
    const uint64_t* const base = base_of(p_, o);
    if (base == nullptr) return;
    const uint64_t told = ptx::load_relaxed_sys(base);
    const uint64_t call = ptx::load_relaxed_sys(&p_.told[o.index].call);
    const uint64_t expected = numbered(call_number_, w_.history);
    if (told == 0 || call != expected)
      *gone = {nullptr, expected, Awaited::buffers, o.index, expected, call};
    address = moved(address, told);
  }

  // Of sources, behind what was received.
  static __device__ void set_bits(uint64_t* words, uint64_t bits, int received) {
    words[0] = bits << received;
    words[1] = bits >> 1 >> (63 - received);
  }

  // What was prepared. False: the worker has given up.
  __device__ bool move_data(const Here& h) {
    const PacketOperands& o = w_.operands;
    if (h.size == 0 || o.plain.source_count == 0 || o.plain.target_count + o.box_count == 0)
      return true;
    if (h.step.boxed != 0 || h.step.boxes != 0) return fold_packets(h);
    fold_or_copy<T, Op>(o.plain);
    return true;
  }

  __device__ bool fold_packets(const Here& h) {
    Cause cause = Cause::none;
    int missing = 0;
    const bool done = PacketFold<T, Op>::run(w_.operands, watch_, &cause, &missing);
    if (!done) {
      const uint32_t source = h.step.first_source + missing - (h.step.from >= 0);
      give_up(limits_, p_.failed, report(cause, &h),
              {nullptr, w_.operands.flag, Awaited::packet, p_.operands[source].index});
    }
    return __syncthreads_or(!done) == 0;
  }

  template <class LinkEnd>
  __device__ const std::byte* slot(const LinkEnd& end, const Step& step) const {
    return end.slots + slot_at(p_, step, count_of(*end.position));
  }
  __device__ std::byte* place_of(const Here& h, uint32_t operand) const {
    return address(p_, call_, p_.operands[operand], h.place, h.begin, h.at.turn, window_call_);
  }

  // One thread, once all have prepared the step, and before the barrier that ends it: moves on what
  // all read before the next.
  __device__ void pass(const Here& h, int i) {
    if (h.message && h.step.ends) {
      const uint32_t digest = message_digest(p_, h.step, h.place);
      if (h.step.from >= 0) move_on(p_.receives[h.step.from].position, digest);
      if (h.step.to >= 0) move_on(p_.sends[h.step.to].position, digest);
    }
    Cursor at = h.at;
    w_.ended[i] = !advance(p_, h.lane, at);
    w_.cursors[i] = at;
  }

  static __device__ void move_on(uint64_t* position, uint32_t digest) {
    *position = position_behind(*position, digest);
  }

  // After that barrier.
  __device__ void post(const Here& h) {
    const Step& step = h.step;
    const uint64_t value = signal_value(call_number_, h.at.turn);
    for (int k = threadIdx.x; k < step.posts; k += blockDim.x)
      ptx::store_release_sys(p_.posts[step.first_post + k].cell, value);
    if (!h.message || !step.ends) return;
    if (threadIdx.x == 0 && step.from >= 0) {
      const Receive& from = p_.receives[step.from];
      ptx::store_release_sys(from.credit, *from.position);
    }
    if (threadIdx.x == 1 && step.to >= 0) {
      const Send& to = p_.sends[step.to];
      if (to.marks == nullptr)
        ptx::store_release_sys(to.head, *to.position);
      else
        mark(h, to);
    }
  }

  // For the relay: what lies in the slot now.
  __device__ void mark(const Here& h, const Send& to) const {
    const uint64_t number = count_of(*to.position);
    Mark& mark = to.marks[(number - 1) % p_.slots];
    mark.bytes = (h.step.slot_offset + h.size * p_.element_bytes) | uint64_t{mark_of(*to.position)}
                                                                        << kMarkShift;
    ptx::store_release_sys(&mark.number, number);
  }

  // To all peers, while other warps look for leases. Every worker does, before it posts.
  __device__ void publish_begun(const Program& program, uint32_t history) const {
    const uint32_t peer = blockDim.x - 1 - threadIdx.x;
    if (peer < static_cast<uint32_t>(program.ranks) && program.publish_begun[peer] != nullptr)
      ptx::store_release_sys(program.publish_begun[peer] + window_call_ % kBegun,
                             numbered(window_call_, history));
  }

  // That every peer has finished the call that used this part of the windows before.
  static __device__ Need lease_of(const Program& program, uint64_t window_call) {
    if (threadIdx.x >= static_cast<unsigned>(program.ranks) || window_call <= kLeases) return {};
    const uint64_t* const begun = program.begun[threadIdx.x];
    if (begun == nullptr) return {};
    const uint64_t behind = window_call - kLeases + 1;
    return {begun + behind % kBegun, numbered(behind, 0), Awaited::lease,
            static_cast<int32_t>(threadIdx.x)};
  }
  __device__ bool await_lease() {
    while (!all_met(lease_, kPollsAlone))
      if (gives_up(lease_, nullptr)) return false;
    watch_.progress();
    return true;
  }

  // After a try that was in vain. Null: before the first step.
  __device__ bool gives_up(Need& need, const Here* h) {
    if (++tries_ % kTriesPerLook != 0) return false;
    if (threadIdx.x == 0) w_.cause = watch_.look();
    const bool elsewhere = is_elsewhere(need);
    if (__syncthreads_or(elsewhere)) return !part(*h, elsewhere ? ~w_.history : w_.history);
    const Cause cause = w_.cause;
    if (cause == Cause::none) return false;
    withdraw_buffers();
    if (!is_met(need)) give_up(limits_, p_.failed, report(cause, h), need);
    __syncthreads();
    // Should all have come at last, it is still over: other workers may have left.
    if (threadIdx.x == 0) give_up(limits_, p_.failed, report(cause, h), Need{});
    withdraw_buffers();
    return true;
  }

  // Null: before the first step.
  __device__ Report report(Cause cause, const Here* h) const {
    Report report{};
    report.cause = cause;
    if (h == nullptr) return report;
    report.lane = static_cast<uint32_t>(&h->lane - p_.lanes);
    report.step = h->at.step;
    report.round = round_at(p_, h->lane, h->at);
    report.rounds = h->lane.rounds;
    return report;
  }

  // The last worker to end moves the rank's counts on.
  __device__ void depart() {
    __syncthreads();
    State& state = *p_.state;
    if (gridDim.x > 1) {
      if (threadIdx.x == 0) w_.last = ptx::add_acq_rel_gpu(&state.departed, 1) + 1 == gridDim.x;
      __syncthreads();
      if (!w_.last) return;
    }
    if (threadIdx.x == 0) {
      state.departed = 0;
      if (p_.collective) state.calls = call_number_, state.history = w_.history;
      if (p_.windowed) state.window_calls = window_call_;
    }
  }

  const Program& p_;
  const Call& call_;
  const Limits& limits_;
  Worker& w_;
  Watch watch_;
  const uint64_t call_number_, window_call_;
  Need lease_;
  const bool failed_;
  const int lanes_;     // of this worker
  uint32_t tries_ = 0;  // the same in all threads
};

}  // namespace weft::device
