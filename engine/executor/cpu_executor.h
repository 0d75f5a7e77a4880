// CpuExecutor: runs one plan at a time on the calling thread, as a polled state machine.
//
// poll() does what can be done without waiting and returns; it never blocks. Lanes are interleaved
// as their links allow. Nothing is allocated once a plan has run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/executor/plan.h"

namespace weft {

// Where a rank's Input and Output lie, as this rank has them mapped; or its Input's address in its
// own process, where that is read through the kernel.
struct MappedBuffers {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  uint64_t input_there = 0;
};

// The memory of one call.
struct Binding {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  const void* scalar = nullptr;
  std::span<const Transfer> group{};
  std::span<const MappedBuffers> mapped{};  // by rank, where the plan touches peers' memory
};

class SharedState;
class StepRing;

struct CallIdentity {
  uint64_t tag = 0;              // on every message; equal on all ranks that make this call
  uint64_t ll_serial = 0;        // flag of the first round's lines; the following rounds count up
  uint64_t window_call = 0;      // number of this call among those that use windows; 0: uses none
  uint64_t finished_before = 0;  // window calls that all ranks must have finished before it starts
  size_t window_offset = 0;      // where its lease lies in every window
};

class CpuExecutor {
 public:
  enum class Progress : uint8_t { blocked, moved, done, failed };

  CpuExecutor(Media& media, SharedState& shared) : media_(media), shared_(shared) {}

  // Of the next call: to be filled in where they are. Copied just after they were written, word by
  // word, they would stall a core for longer than a small call's steps take.
  Binding& binding() { return binding_; }
  CallIdentity& identity() { return identity_; }
  // REQUIRES: not running, and both are filled in. `plan` and the call's memory stay until done or
  // failed.
  void start(Plan& plan);
  Progress poll();
  void drop() { plan_ = nullptr; }  // after a failure

  // Looks for dead links and peers among those that are being waited for.
  Status check() const;
  const Status& failure() const { return failure_; }
  // Who is waited for, and where: "rank 2: lane 0, step 3 (recv_reduce_send), round 1 of 4".
  std::string blocked_on() const;
  std::vector<Rank> blocked_peers() const;
  // One of those that the last poll found missing, where it was blocked.
  Rank awaited() const { return awaited_; }
  // Whether one that this rank still takes something from, in this round or to begin or end the
  // call, shares its CPU. REQUIRES: blocked
  bool needs_this_cpu() const;

 private:
  struct Cursor {  // where a lane is
    uint32_t step = 0;
    int time = 0;
    size_t round = 0;
    size_t turn = 0;          // which of the lane's own rounds that is
    StoreTrial::Turn stores;  // how that one writes for other ranks
    size_t window = 0;        // bytes from a window's begin to this round's half of the lease
    bool entered = false;
    bool finished = false;
    // From here on: set when a step is entered.
    int chunk = 0;
    size_t begin = 0;                  // of this round, in the chunk
    size_t size = 0, position = 0;     // elements of this chunk and round
    size_t line = 0;                   // of its ll lines
    uint64_t tag = 0;                  // of this chunk's messages
    const std::byte* input = nullptr;  // this chunk and round in Input, Output
    std::byte* output = nullptr;
    int64_t began_ns = 0;                  // when traced
    size_t rest = 0;                       // elements that the message's later steps add
    bool empty_message = false;            // to be moved although none of its chunks has elements
    size_t in_offset = 0, out_filled = 0;  // bytes of the message at hand, of the slot being filled
    Ticket first_ticket = 0, last_ticket = 0;

    void restart(size_t first_round, size_t window_offset) {
      step = 0;
      time = 0;
      round = first_round;
      turn = 0;
      window = window_offset;
      entered = finished = false;
      stores = {};
    }
  };
  enum class Move : uint8_t { blocked, moved, complete, failed };

  // The operands of a fold. Not initialised as a whole, for it lives on hot paths.
  struct Places {
    const void* source[ReduceCall::kMaxSources];
    void* target[kMostTargets + 1];
    int sources = 0, targets = 0;
    uint64_t scaled = 0;  // bit k: source k is multiplied by the scalar
  };

  void provide_scratch(size_t bytes);
  bool may_start();
  bool lease_is_free();
  bool lease_is_free_of(Rank rank) const;
  Move run_lane(const PlanLane& lane, Cursor& at);
  Move run_step(const PlanLane& lane, const PlanStep& step, Cursor& at);
  Move run_traced(const PlanLane& lane, Cursor& at, StepRing& trace);
  Progress poll_lanes();
  Progress poll_short();
  void claim_next() const;
  inline Move run_short(Cursor& at);
  inline Move run_short(const ShortStep& step, Cursor& at);
  inline void copy(const ShortFold& part, const ShortStep& step, uint64_t flag) const;
  inline void fold(const ShortFold& part, const ShortStep& step, uint64_t flag, Cursor& at) const;
  static inline void hand_out(const ShortFold& part, const ShortStep& step, uint64_t flag,
                              std::byte* target);
  inline std::byte* memory_of(const ShortPlace& place) const;
  std::atomic<uint64_t>& flag_at(const ShortPlace& place) const;
  Move arrived(const std::atomic<uint64_t>& flag, Rank from, uint64_t expected);
  void enter(const PlanStep& step, Cursor& at);
  void enter_transfers(int chunk, size_t begin, Cursor& at);
  void enter_message(const PlanStep& step, Cursor& at);
  Move signalled(const PlanStep& step, const Cursor& at);
  Move blocked_by(Rank peer);
  uint64_t needed(const Signal& wait, const Cursor& at) const;
  uint64_t seen(const Signal& wait) const;
  void leave(const PlanStep& step);
  void next(const PlanLane& lane, const PlanStep& step, Cursor& at);

  Move move(const PlanStep& step, Cursor& at);
  Move move_local(const PlanStep& step, Cursor& at);
  Move move_lines(const PlanStep& step, Cursor& at);
  Move arrived(const PlanStep& step, const Cursor& at, uint64_t flag);
  Move move_nothing(const PlanStep& step, Cursor& at);
  Move move_linked(const PlanStep& step, Cursor& at);
  Move send_memory(const PlanStep& step, Cursor& at);
  Move receive_memory(const PlanStep& step, Cursor& at);
  Move pull(const PlanStep& step, Cursor& at);
  bool message_fits(const PlanStep& step, const Cursor& at, size_t bytes, uint64_t tag);

  // Adds where the step's operands are: of the `count` elements from the cursor on.
  void locate(const PlanStep& step, const Cursor& at, size_t count, Places& places) const;
  // The step's fold of the next `count` elements.
  void fold(const PlanStep& step, Places& places, size_t count, Cursor& at) const;
  void fold(const PlanStep& step, Places& places, size_t count, uint64_t past_caches) const;
  void begin_turn(Cursor& at) const {
    if (plan_->stores) begin_tried_turn(at);
  }
  void begin_tried_turn(Cursor& at) const;
  void end_turn(const Cursor& at) {
    if (at.stores.timed) end_timed_turn(at);
  }
  void end_timed_turn(const Cursor& at);
  void tell_costs();
  void hear_costs() const;
  std::byte* address(const Operand& operand, const Cursor& at) const;
  std::byte* mapped(const Operand& operand, const Cursor& at) const;
  LlLine* line(const Operand& operand, const Cursor& at) const;
  inline void finish_call();
  Move fail(Status status);
  std::string place(const PlanLane& lane, const Cursor& at) const;
  bool is_missing(const Signal& wait, const Cursor& at) const;
  template <class Use>
  bool any_source(const PlanLane& lane, size_t index, const Cursor& at, Use use) const;
  std::vector<Rank> waited_for(const PlanLane& lane, const Cursor& at) const;

  Media& media_;
  SharedState& shared_;
  Plan* plan_ = nullptr;
  Binding binding_;
  CallIdentity identity_;
  std::vector<Cursor> cursors_;
  std::byte* scratch_ = nullptr;
  size_t lanes_left_ = 0;
  bool started_ = false;
  bool short_ = false;  // by short steps
  Rank awaited_ = -1;
  Status failure_;
};

}  // namespace weft
