// One function per instruction set that was compiled in: its kernels, nullptr where an operation
// has no meaning on a type. Calling a kernel needs a CPU that has the instruction set.
#pragma once

#include "kernels/reduce.h"

namespace weft {

ReduceKernel portable_kernel(ReduceOp op, DataType type);
ReduceKernel avx2_kernel(ReduceOp op, DataType type);
ReduceKernel avx512_kernel(ReduceOp op, DataType type);
ReduceKernel neon_kernel(ReduceOp op, DataType type);

}  // namespace weft
