// How a block waits for others and lets them go on, by cells that count (kernels/device_program.h).
//
// A waiting thread polls with acquiring loads; behind a barrier all threads of the block see what
// was written before what it saw. (A fence after relaxed ones takes twice as long as such a load,
// on an H100.) A post is a barrier, after which one thread releases: that covers what all threads
// of the block did before.
#pragma once

#include "kernels/cuda/machine.cuh"
#include "kernels/device_program.h"

namespace weft::device {

// What a thread looks after: a cell that must reach a value. Null: nothing.
struct Need {
  const uint64_t* cell = nullptr;
  uint64_t value = 0;
  Awaited what = Awaited::signal;
  int32_t peer = -1;
  uint64_t expected = 0;  // of marks: what is seen where the peer is in the same call
  uint64_t seen = 0;
};

__device__ __forceinline__ bool is_met(Need& need) {
  if (need.cell == nullptr) return true;
  need.seen = ptx::load_acquire_sys(need.cell);
  return reached(need.seen, need.value);
}

// Whether the needs of all threads are met, and then all see what was posted with what these saw;
// each polls its own at most `polls` times. All threads call it.
__device__ __forceinline__ bool all_met(Need& mine, int polls) {
  bool met = is_met(mine);
  for (int i = 1; !met && i < polls; ++i) {
    ptx::nanosleep(8);
    met = is_met(mine);
  }
  if (!met) ptx::nanosleep(8);
  return __syncthreads_or(!met) == 0;
}

// When a worker gives up. Thread 0 of the block asks.
class Watch {
 public:
  __device__ explicit Watch(const Limits& limits, const uint32_t* failed)
      : limits_(limits), failed_(failed) {}

  __device__ void progress() { since_ns_ = 0; }

  __device__ Cause look() {
    if (ptx::load_relaxed_sys(failed_) != 0) return Cause::aborted;
    if (limits_.abort != nullptr && ptx::load_relaxed_sys(limits_.abort) != 0)
      return Cause::aborted;
    if (limits_.timeout_ns == 0) return Cause::none;
    const uint64_t now = ptx::global_timer_ns();
    if (since_ns_ == 0) since_ns_ = now;
    return now - since_ns_ > limits_.timeout_ns ? Cause::timed_out : Cause::none;
  }

 private:
  const Limits& limits_;
  const uint32_t* failed_;
  uint64_t since_ns_ = 0;  // the first look without progress
};

// Fills the report, if nobody has claimed it yet; not by one assignment, as the host may read
// `complete` meanwhile.
__device__ inline void give_up(const Limits& limits, uint32_t* failed, const Report& report,
                               const Need& need) {
  if (ptx::exchange_relaxed_gpu(failed, 1) != 0 || limits.report == nullptr) return;
  Report& to = *limits.report;
  to.cause = report.cause;
  to.awaited = need.what;
  to.peer = need.peer;
  to.lane = report.lane;
  to.step = report.step;
  to.round = report.round;
  to.rounds = report.rounds;
  to.number = limits.number;
  to.needed = need.value;
  to.seen = need.cell == nullptr ? need.seen : ptx::load_relaxed_sys(need.cell);
  ptx::store_release_sys(&to.complete, 1u);
}

}  // namespace weft::device
