// A device program taken apart into steps that are launched by themselves (kernels/device_step.h):
// what a stream is given for one call of a rank.
//
// Nothing is carried over from call to call: cells count from zero in each, and are zero again when
// it ends.
//   * Where the schedule has signals or windows, a call begins and ends with all ranks. Nobody
//     posts to a rank, or writes into its window, before that has entered the call (`entered`),
//     and nobody lets go of it before all have posted their last (`finished`, in a step behind
//     those that post). Both cells are written by each peer, and zeroed after one is waited for
//     and before the other is written, so neither can be written again too early.
//   * Where ranks touch each other's buffers, each tells where its own are before it enters.
//   * A receiver grants slots: all that there are when its call, or the next transfer of a group,
//     begins, and each again that it has taken a message out of, unless no message will come to it.
//     A sender waits for the grant of each message. Both ends know which message is the last, and
//     zero the cell that they wait for once that has come, before the other end hears of it; so
//     nothing is written there any more before the next call or transfer. Messages start at slot 0.
//     Ranks that only share links need not meet otherwise.
//   * What is written to begin a call, and the count of messages, have the mark of the call below,
//     or of the message (kernels/device_program.h). They are of this call, as nothing is carried
//     over, and compared by the step that has waited for them, before it does anything.
#pragma once

#include <span>
#include <vector>

#include "engine/executor/device_lower.h"
#include "kernels/cuda/operands.h"
#include "kernels/device_step.h"

namespace weft {

// Of all ranks' programs, what one rank's script takes.
struct ScriptOrder {
  std::vector<uint32_t> lanes;  // see serial_order(); empty for groups
  bool meets = false;           // the call begins and ends with all ranks
  std::vector<Signal> posts;    // those to this rank; `peer` posts
};
Result<ScriptOrder> script_order(std::span<const Program> programs, Rank me, uint32_t slots);

class DeviceScript {
 public:
  // `scratch` is the rank's, on the device.
  static Result<DeviceScript> make(const DeviceImage& image, const DeviceMap& map,
                                   const ScriptOrder& order, std::byte* scratch);

  ReduceOp op() const { return program_.op; }
  DataType type() const { return program_.type; }

  size_t steps() const { return moments_.size(); }

  // Bytes of device memory for tables; writes them to `memory` as they have to lie at `device`.
  size_t table_bytes() const;
  void place(Bytes memory, const std::byte* device);

  // What the stream waits for before the step, and then launches. REQUIRES: place() was called.
  std::span<const device::CellWait> waits(size_t step) const;
  device::Operands operands(size_t step, const device::Call& call) const;
  // But for what is of the rank and not of the call: `pace`, `saved`, `watched`.
  device::Tail tail(size_t step, const device::Call& call) const;
  size_t bytes(size_t step) const;  // of each operand

 private:
  friend class ScriptWriter;
  // One step, or what comes before or after all.
  struct Moment {
    const device::Step* step = nullptr;  // null: there are no operands
    const device::Place* place = nullptr;
    uint32_t lane = 0, number = 0;  // the step's, in its lane
    uint64_t turn = 0, round = 0, rounds = 0, begin = 0, size = 0;
    uint64_t received = 0, sent = 0;  // messages of these links before
    size_t first_wait = 0, waits = 0;
    size_t first_write = 0, early = 0, others = 0;
    size_t first_base = 0, bases = 0;
  };

  std::vector<std::byte> tables_;  // of the program, on the host
  device::Program program_{};
  std::vector<Moment> moments_;
  std::vector<device::CellWait> waits_;
  std::vector<device::CellWrite> writes_;
  std::vector<device::Base> bases_;
  size_t tells_ = 0;  // of the writes, the first ones: where this rank's buffers are
  const device::CellWait* placed_waits_ = nullptr;
  const device::CellWrite* placed_writes_ = nullptr;
  const device::Base* placed_bases_ = nullptr;
};

}  // namespace weft
