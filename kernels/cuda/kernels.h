// The kernels as the host sees them: addresses to launch (cudaLaunchKernel takes them as they are).
//
// Each is compiled for blocks of at most kMostThreads threads, any number of blocks, and uses no
// dynamic shared memory.
#pragma once

#include "base/types.h"
#include "kernels/cuda/operands.h"
#include "kernels/device_program.h"
#include "kernels/device_step.h"

namespace weft::device {

// One step by itself (kernels/device_step.h): what kernels/reduce.h says, or a copy of
// operands.sources[0] bit by bit where that is the only source and neither scaled nor divided, each
// block a part of it; and what the tail says, once all have done theirs.
using StepKernel = void (*)(Operands, Tail, Limits);

// nullptr where `defined(op, type)` is false. avg and premulsum fold like sum.
StepKernel step_kernel(ReduceOp op, DataType type);

// One call of a rank (kernels/device_program.h). Any number of blocks, but no more than kMostLanes
// lanes for each, and as many threads as a step has waits, and two more, and as there are ranks.
// All blocks of all ranks must be resident at once.
using InterpretKernel = void (*)(Program, Call, Limits);
inline constexpr int kMostLanes = 64;

// For Program::op and type; of a program that does not reduce, any will do.
InterpretKernel interpret_kernel(ReduceOp op, DataType type);

// By type, each in an object of its own; for the functions above.
template <DataType kType>
struct Entries {
  static StepKernel step(ReduceOp op);
  static InterpretKernel interpret(ReduceOp op);
};

}  // namespace weft::device
