// What a block folds or copies, and where to; for host and device.
#pragma once

#include <cstdint>

#include "kernels/cuda/vec16.h"
#include "kernels/number.h"

namespace weft::device {

inline constexpr int kMostThreads = 512;  // of a block; kernels are compiled for it
inline constexpr int kMostSources = 65;   // a message, and one of each of 64 ranks
inline constexpr int kMostTargets = 65;   // likewise
inline constexpr int kMostBoxes = 65;     // targets besides those, for packets

// As ReduceCall (kernels/reduce.h), with more targets. A target may be a source, but must not
// overlap one at another offset.
struct Operands {
  const void* sources[kMostSources];
  void* targets[kMostTargets];
  int source_count, target_count;
  uint64_t count;      // elements; of bitwise operations bytes (counts_bytes())
  const void* scalar;  // one element; null: none is scaled
  uint64_t scaled[2];  // bit k % 64 of word k / 64: source k is multiplied by it
  int64_t divisor;     // 1: none
  bool streaming;      // what is written is not read again soon
};

WEFT_HD bool is_scaled(const Operands& operands, int source) {
  return (operands.scaled[source / 64] >> (source % 64) & 1) != 0;
}
WEFT_HD bool is_modified(const Operands& operands) {
  return (operands.scaled[0] | operands.scaled[1]) != 0 || operands.divisor > 1;
}

WEFT_HD uintptr_t address_of(const void* memory) { return reinterpret_cast<uintptr_t>(memory); }

// Also from null, as what is counted from an address that is not known yet.
template <class Pointer>
WEFT_HD Pointer moved(Pointer memory, uint64_t bytes) {
  return reinterpret_cast<Pointer>(address_of(memory) + bytes);
}

// By what the operands' addresses differ from each other, modulo the size of a Vec16: its lowest
// bit is what all that lies at the same offset is aligned to, relative to the first target.
WEFT_HD uintptr_t misalignment(const Operands& operands) {
  const uintptr_t base = address_of(operands.targets[0]);
  uintptr_t bits = 0;
  for (int k = 0; k < operands.source_count; ++k) bits |= address_of(operands.sources[k]) - base;
  for (int t = 1; t < operands.target_count; ++t) bits |= address_of(operands.targets[t]) - base;
  return bits % sizeof(Vec16);
}

}  // namespace weft::device
