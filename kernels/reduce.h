// N-operand reduction in host memory, for every element type and operation.
//
// One definition of the arithmetic for all targets (kernels/number.h): a reduction folds its
// operands left to right in the order given. 16-bit and 8-bit floats are widened to float, folded,
// and rounded to nearest even once at the end; nothing is contracted into an FMA. min and max give
// NaN where any operand is NaN, and take -0.0 as less than +0.0; a NaN result is the canonical NaN
// of its type. The 8-bit floats saturate (kernels/number.h). Integer sums and products wrap. A
// single operand, neither scaled nor divided, is copied bit by bit. The result for an element
// therefore depends on its operands only: not on the instruction set, the alignment, the position
// in the message or how it was cut. REQUIRES: the usual floating-point mode (float_mode.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "base/types.h"

namespace weft {

// One call of a reduction kernel: for i in [0, count)
//   x = fold(op, pre(sources[0])[i], pre(sources[1])[i], ...);  x = x / divisor if divisor > 1;
//   targets[t][i] = x for each target
// where pre() multiplies by `scalar` and rounds to the element type if that source's bit is set in
// `scaled`. Sources and targets may have any alignment. A target may be the same memory as a source
// (element i is read before it is written), but must not overlap one at another offset.
struct ReduceCall {
  static constexpr int kMaxSources = 64;

  const void* const* sources = nullptr;
  int source_count = 0;  // 1 .. kMaxSources; 1 copies (scaled, divided)
  void* const* targets = nullptr;
  int target_count = 0;  // 1 or 2
  size_t count = 0;      // elements
  // premulsum: one element of the type, and a bit per source (bit k: sources[k]). Scalar and
  // divisor are for the kernels that fold like sum; to give them to another is a bug.
  const void* scalar = nullptr;
  uint64_t scaled = 0;
  // avg: the number of ranks, applied before the final rounding; integers truncate toward zero.
  int64_t divisor = 1;
  // Bit k: write targets[k] past the caches (non-temporal), where its alignment allows it.
  uint32_t streamed = 0;
  // Bit k: other cores have read what lies in targets[k], and read next what goes there. Lines of
  // the last target, if it is one, are claimed before they are written (claim.h).
  uint32_t shared = 0;
};

using ReduceKernel = void (*)(const ReduceCall&);

// The fastest kernel of this machine; nullptr where `defined(op, type)` is false. avg and premulsum
// fold like sum. Cheap, but meant to be called once per plan.
ReduceKernel reduce_kernel(ReduceOp op, DataType type);

// The instruction sets compiled in; for tests, which run them all against the portable one.
enum class Isa : uint8_t { portable, avx2, avx512, neon };
std::string_view name(Isa isa);
bool available(Isa isa);  // compiled in, and this CPU has it
ReduceKernel reduce_kernel(ReduceOp op, DataType type, Isa isa);  // nullptr where not available

}  // namespace weft
