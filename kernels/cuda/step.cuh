// A step that is launched by itself (kernels/device_step.h). Nothing in it waits.
//
// The last block to end writes cells: its own rank's first, then, behind a barrier, those that let
// others go on, by releases that cover what all blocks have done. Host memory, which is far, is
// written after these, and read only where calls are over, and where what has come over a relay is
// compared with what this rank calls.
#pragma once

#include "kernels/cuda/fold.cuh"
#include "kernels/cuda/signal.cuh"
#include "kernels/device_step.h"

namespace weft::device {

// What the calling block has of `whole`, for all its threads. Parts begin on whole vectors.
__device__ inline void take_part(const Operands& whole, uint32_t element_bytes, Operands* mine) {
  constexpr uint64_t kAlignment = 1024;  // elements
  const uint64_t each =
      ((whole.count + gridDim.x - 1) / gridDim.x + kAlignment - 1) / kAlignment * kAlignment;
  const uint64_t begin = min_of(whole.count, each * blockIdx.x);
  const uint64_t skip = begin * element_bytes;
  for (int k = threadIdx.x; k < whole.source_count; k += blockDim.x)
    mine->sources[k] = moved(whole.sources[k], skip);
  for (int t = threadIdx.x; t < whole.target_count; t += blockDim.x)
    mine->targets[t] = moved(whole.targets[t], skip);
  if (threadIdx.x == 0) {
    mine->source_count = whole.source_count;
    mine->target_count = whole.target_count;
    mine->count = min_of(whole.count - begin, each);
    mine->scalar = whole.scalar;
    mine->scaled[0] = whole.scaled[0];
    mine->scaled[1] = whole.scaled[1];
    mine->divisor = whole.divisor;
    mine->streaming = whole.streaming;
  }
  __syncthreads();
}

// All has been waited for. For its thread: a peer that has given up, so that its buffers must not
// be touched; or -1.
__device__ inline int32_t reach_buffers(const Tail& tail, Operands* mine) {
  int32_t gone = -1;
  for (uint32_t i = threadIdx.x; i < tail.base_count; i += blockDim.x) {
    const Base& base = tail.bases[i];
    const uint64_t told = ptx::load_relaxed_sys(base.told);
    if (told == 0) gone = base.peer;
    if (base.target)
      mine->targets[base.operand] = moved(mine->targets[base.operand], told);
    else
      mine->sources[base.operand] = moved(mine->sources[base.operand], told);
  }
  return gone;
}

// Why the rank's calls are over, if they are: so are waits then, and before the first that is ended
// by force that is noted. `shared`: a word of the block's.
__device__ inline Cause end_of_calls(const Tail& tail, const Limits& limits, uint32_t* shared) {
  if (threadIdx.x == 0) {
    const bool failed = ptx::load_relaxed_sys(tail.failed) != 0;
    const bool ended = ptx::load_relaxed_sys(&tail.watched->ended) != 0;
    *shared = failed  ? static_cast<uint32_t>(Cause::aborted)
              : ended ? ptx::load_relaxed_sys(limits.abort)
                      : 0;
  }
  __syncthreads();
  return static_cast<Cause>(*shared);
}

// For its thread: the wait whose peer is in another call, and what the cell was; or null. Null as
// well where waits have been ended by force, as cells say nothing any more, and where what is seen
// is of a later message, which has a mark of its own.
__device__ inline const CellWait* find_mismatch(const Tail& tail, uint64_t* seen) {
  for (uint32_t i = blockDim.x - 1 - threadIdx.x; i < tail.wait_count; i += blockDim.x) {
    const CellWait& wait = tail.waits[i];
    if (wait.expected == 0) continue;
    *seen = ptx::load_acquire_sys(wait.cell);
    const bool gone_on =
        wait.what == Awaited::message && count_of(*seen) != count_of(wait.expected);
    if (*seen == wait.expected || gone_on) continue;
    return ptx::load_relaxed_sys(&tail.watched->ended) != 0 ? nullptr : &wait;
  }
  return nullptr;
}

// What a cell was.
__device__ inline const uint64_t* saved_of(const Tail& tail, const uint64_t* cell) {
  const auto* const at = reinterpret_cast<const std::byte*>(cell);
  for (const SavedCells& saved : tail.saved)
    if (at >= saved.begin && at < saved.begin + saved.bytes)
      return reinterpret_cast<const uint64_t*>(saved.was + (at - saved.begin));
  return cell;
}

__device__ inline Report report_of(const Tail& tail, Cause cause) {
  Report report{};
  report.cause = cause;
  report.lane = tail.lane;
  report.step = tail.step;
  report.round = tail.round;
  report.rounds = tail.rounds;
  return report;
}

// Before the rank says that it has given up.
__device__ inline void withdraw_buffers(const Tail& tail) {
  for (uint32_t i = threadIdx.x; i < tail.tell_count; i += blockDim.x)
    ptx::store_relaxed_sys(tail.tells[i].cell, 0);
  __syncthreads();
}

// A peer has given up, for those threads that name one.
__device__ inline void report_gone(const Tail& tail, const Limits& limits, int32_t peer) {
  withdraw_buffers(tail);
  if (peer >= 0)
    give_up(limits, tail.failed, report_of(tail, Cause::aborted),
            {nullptr, 0, Awaited::buffers, peer});
}

// A peer is in another call, for those threads that have found one.
__device__ inline void report_mismatch(const Tail& tail, const Limits& limits, const CellWait* wait,
                                       uint64_t seen) {
  withdraw_buffers(tail);
  if (wait != nullptr)
    give_up(limits, tail.failed, report_of(tail, Cause::mismatched),
            {nullptr, wait->expected, wait->what, wait->peer, wait->expected, seen});
}

// Reports what the stream was waiting for when waits were ended; no peer, if it had all come.
__device__ inline void report_end(const Tail& tail, const Limits& limits, Cause cause) {
  withdraw_buffers(tail);
  const Report report = report_of(tail, cause);
  const bool ended = ptx::load_relaxed_sys(&tail.watched->ended) != 0;
  if (ended) ptx::fence_acq_rel_sys();
  for (uint32_t i = threadIdx.x; ended && i < tail.wait_count; i += blockDim.x) {
    const CellWait& wait = tail.waits[i];
    Need need{saved_of(tail, wait.cell), wait.value, wait.what, wait.peer};
    if (!is_met(need)) give_up(limits, tail.failed, report, need);
  }
  __syncthreads();
  if (threadIdx.x == 0) give_up(limits, tail.failed, report, Need{});
}

__device__ inline uint64_t value_of(const Tail& tail, const CellWrite& write) {
  switch (write.adds) {
    case Adds::input: return write.value + tail.input;
    case Adds::output: return write.value + tail.output;
    default: return write.value;
  }
}

__device__ inline void write_cells(const Tail& tail, uint32_t begin, uint32_t end) {
  for (uint32_t i = begin + threadIdx.x; i < end; i += blockDim.x)
    ptx::store_release_sys(tail.writes[i].cell, value_of(tail, tail.writes[i]));
}

__device__ inline void pass_on(const Tail& tail, const Limits& limits, uint32_t* shared) {
  __syncthreads();
  if (threadIdx.x == 0)
    *shared = ptx::add_acq_rel_gpu(&tail.state->departed, 1) + 1 == gridDim.x ? 1 : 0;
  __syncthreads();
  if (*shared == 0) return;
  write_cells(tail, 0, tail.early_count);
  __syncthreads();
  write_cells(tail, tail.early_count, tail.write_count);
  if (threadIdx.x == 0) {
    tail.state->departed = 0;
    ptx::store_relaxed_sys(&tail.pace->steps, ++tail.watched->steps);
    ptx::store_release_sys(&tail.pace->timeout_ns, tail.last ? uint64_t{0} : limits.timeout_ns);
  }
}

template <class T, class Op>
__device__ __forceinline__ void run_step(const Operands& operands, const Tail& tail,
                                         const Limits& limits, Operands* mine, uint32_t* shared) {
  if (tail.state != nullptr) {
    uint64_t seen = 0;  // while the first thread looks whether calls are over
    const CellWait* const elsewhere = find_mismatch(tail, &seen);
    const Cause cause = end_of_calls(tail, limits, shared);
    if (cause != Cause::none) return report_end(tail, limits, cause);
    if (__syncthreads_or(elsewhere != nullptr) != 0)
      return report_mismatch(tail, limits, elsewhere, seen);
  }
  if (operands.count != 0 && operands.source_count != 0 && operands.target_count != 0) {
    take_part(operands, sizeof(T), mine);
    if (tail.scales && threadIdx.x == 0) mine->scalar = tail.scalar;
    const int32_t gone = reach_buffers(tail, mine);
    if (__syncthreads_or(gone >= 0) != 0) return report_gone(tail, limits, gone);
    fold_or_copy<T, Op>(*mine);
  }
  if (tail.state != nullptr) pass_on(tail, limits, shared);
}

}  // namespace weft::device
