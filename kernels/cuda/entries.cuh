// The kernels themselves, and which of them an operation on a type takes. Each type's object
// instantiates Entries once.
#pragma once

#include "kernels/cuda/interpret.cuh"
#include "kernels/cuda/kernels.h"

namespace weft::device {

// What the calling block has of `whole`, for all its threads. Parts begin on whole vectors.
__device__ inline void take_part(const Operands& whole, uint32_t element_bytes, Operands* mine) {
  constexpr uint64_t kAlignment = 1024;  // elements
  const uint64_t each =
      ((whole.count + gridDim.x - 1) / gridDim.x + kAlignment - 1) / kAlignment * kAlignment;
  const uint64_t begin = min_of(whole.count, each * blockIdx.x);
  const uint64_t skip = begin * element_bytes;
  if (threadIdx.x == 0) {
    *mine = whole;
    mine->count = min_of(whole.count - begin, each);
    for (int k = 0; k < whole.source_count; ++k)
      mine->sources[k] = static_cast<const unsigned char*>(whole.sources[k]) + skip;
    for (int t = 0; t < whole.target_count; ++t)
      mine->targets[t] = static_cast<unsigned char*>(whole.targets[t]) + skip;
  }
  __syncthreads();
}

template <class T, class Op>
__global__ void __launch_bounds__(kMostThreads, 1) fold(const __grid_constant__ Operands operands) {
  __shared__ Operands mine;
  take_part(operands, sizeof(T), &mine);
  fold_or_copy<T, Op>(mine);
}

template <class T, class Op>
__global__ void __launch_bounds__(kMostThreads, 1)
    interpret(const __grid_constant__ Program program, const __grid_constant__ Call call,
              const __grid_constant__ Limits limits) {
  __shared__ Worker worker;
  Interpreter<T, Op>(program, call, limits, &worker).run();
}

// The instance of Kernel<T, Op>::value for `op`; nullptr where it has no meaning on the type.
template <DataType kType, template <class, class> class Kernel>
auto choose(ReduceOp op) {
  using T = typename ElementOf<kType>::type;
  using Pointer = decltype(Kernel<T, Sum>::value);
  if constexpr (kType == DataType::boolean) {
    switch (op) {
      case ReduceOp::band: return Kernel<uint8_t, BitAnd>::value;
      case ReduceOp::bor: return Kernel<uint8_t, BitOr>::value;
      case ReduceOp::bxor: return Kernel<uint8_t, BitXor>::value;
      default: return Pointer{nullptr};
    }
  } else {
    switch (op) {
      case ReduceOp::sum:
      case ReduceOp::avg:
      case ReduceOp::premulsum: return Kernel<T, Sum>::value;
      case ReduceOp::prod: return Kernel<T, Prod>::value;
      case ReduceOp::min:
        if constexpr (!kIsComplex<T>) return Kernel<T, Min>::value;
        break;
      case ReduceOp::max:
        if constexpr (!kIsComplex<T>) return Kernel<T, Max>::value;
        break;
      default: break;
    }
    return Pointer{nullptr};
  }
}

template <class T, class Op>
struct FoldEntry {
  static constexpr FoldKernel value = fold<T, Op>;
};

template <class T, class Op>
struct InterpretEntry {
  static constexpr InterpretKernel value = interpret<T, Op>;
};

template <DataType kType>
FoldKernel Entries<kType>::fold(ReduceOp op) {
  return choose<kType, FoldEntry>(op);
}

template <DataType kType>
InterpretKernel Entries<kType>::interpret(ReduceOp op) {
  return choose<kType, InterpretEntry>(op);
}

}  // namespace weft::device
