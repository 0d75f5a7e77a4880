// What was compiled for each instruction set. Calling it needs a CPU that has the instruction set.
#pragma once

#include "kernels/reduce.h"

namespace weft {

Isa best_isa();  // of this CPU

// nullptr where an operation has no meaning on a type.
ReduceKernel portable_kernel(ReduceOp op, DataType type);
ReduceKernel avx2_kernel(ReduceOp op, DataType type);
ReduceKernel avx512_kernel(ReduceOp op, DataType type);
ReduceKernel neon_kernel(ReduceOp op, DataType type);

// Whether this CPU is one of Intel's.
inline bool is_intels() {
#if defined(__x86_64__)
  return __builtin_cpu_is("intel");
#else
  return false;
#endif
}

// REQUIRES: `to` aligned to a cache line, `bytes` a multiple of one.
using CopyLoop = void (*)(char* to, const char* from, size_t bytes);
struct CopyLoops {  // by CopyWay
  CopyLoop shared = nullptr, taken = nullptr;
  size_t cached_from = 0;  // bytes from which these are faster than the C library
  CopyLoop streamed = nullptr;
  bool own_by_library = false;  // which is faster there, whatever the size
};
// As copies take them, on Intel's CPUs or on others.
CopyLoops copy_loops(Isa isa, bool intel);
CopyLoops avx2_copy_loops();
CopyLoops avx512_copy_loops();

}  // namespace weft
