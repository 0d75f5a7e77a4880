// One step of a device program that is launched by itself, on a stream that has waited for what it
// needs, so that no kernel ever waits (engine/executor/device_script.h makes a call of such steps).
//
// A call leaves all cells that it uses as it found them, zero. So the same launches can be replayed
// by a CUDA graph any number of times, mixed with others, and wait for the same values each time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/device_program.h"

namespace weft::device {

// Whether the step kernel of the operation counts bytes, whatever the type, not elements.
constexpr bool counts_bytes(ReduceOp op) {
  return op == ReduceOp::band || op == ReduceOp::bor || op == ReduceOp::bxor;
}

// Until a cell of this rank's memory has reached a value.
struct CellWait {
  const uint64_t* cell;
  uint64_t value;
  Awaited what;
  int32_t peer;       // who writes it
  uint64_t expected;  // what it then is, with the mark, unless the peer is in another call or it
                      // has gone on; 0: it has no mark
};

// To the value may be added where this rank's Input or Output is.
enum class Adds : uint8_t { nothing, input, output };
struct CellWrite {
  uint64_t* cell;
  uint64_t value;
  Adds adds;
};

// An operand of a step is counted from what a peer has told.
struct Base {
  const uint64_t* told;
  int32_t peer;
  uint16_t operand;  // number k of the sources; or of the targets
  bool target;
};

// How a rank's steps get on, in host memory, which no kernel reads. One kernel at a time writes it,
// in this order: who has seen that a call has begun then sees the steps that ended until then.
struct Pace {
  uint64_t steps;       // that have ended
  uint64_t timeout_ns;  // of the call that has begun and not ended; 0: there is none
};

// What kernels look at instead, in device memory.
struct Watched {
  uint64_t ended;  // not 0: waits are ended by force, and Limits::abort says why
  uint64_t steps;  // as in Pace
};

// Cells of the rank, and what they were when waits were ended.
struct SavedCells {
  const std::byte* begin;
  size_t bytes;
  const std::byte* was;
};

// What a step has besides its operands. Tables are in device memory.
struct Tail {
  const CellWait* waits;  // what the stream has waited for
  // This rank's own cells, and what others need first, whom it tells where its buffers are or for
  // whom a relay carries: these are written before any other one. The others are in no order.
  const CellWrite* writes;
  const Base* bases;
  const CellWrite* tells;  // where the rank's buffers are; what is told so is zeroed where it ends
  uint32_t wait_count, early_count, write_count, base_count, tell_count;
  uint64_t input, output;  // addresses
  State* state;            // `departed` of it; null: the operands are all there is
  uint32_t* failed;        // as Program's
  Pace* pace;
  // Waits are ended by force where the rank gives up. Before, what cells were is saved: those of
  // its device memory, and those that relays write. Then `ended` is set.
  SavedCells saved[2];
  Watched* watched;
  uint32_t lane, step;  // for the report
  uint64_t round, rounds;
  bool last;    // of the call
  bool scales;  // by `scalar`, not by Operands::scalar
  alignas(16) unsigned char scalar[16];
};

}  // namespace weft::device
