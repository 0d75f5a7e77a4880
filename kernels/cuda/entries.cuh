// The kernels themselves, and which of them an operation on a type takes. Each type's object
// instantiates Entries once.
#pragma once

#include <type_traits>

#include "kernels/cuda/interpret.cuh"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/step.cuh"

namespace weft::device {

template <class T, class Op>
__global__ void __launch_bounds__(kMostThreads, 1)
    step(const __grid_constant__ Operands operands, const __grid_constant__ Tail tail,
         const __grid_constant__ Limits limits) {
  __shared__ Operands mine;
  __shared__ uint32_t word;
  run_step<T, Op>(operands, tail, limits, &mine, &word);
}

template <class T, class Op>
__global__ void __launch_bounds__(kMostThreads, 1)
    interpret(const __grid_constant__ Program program, const __grid_constant__ Call call,
              const __grid_constant__ Limits limits) {
  Interpreter<T, Op>(program, call, limits, &shared_worker()).run();
}

// The instance of Kernel<T, Op>::value for `op`; nullptr where it has no meaning on the type, and
// where another type's does for it (kernels.cc).
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
      case ReduceOp::prod:
        if constexpr (!std::is_signed_v<T> || !std::is_integral_v<T>) return Kernel<T, Prod>::value;
        break;
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
struct StepEntry {
  static constexpr StepKernel value = step<T, Op>;
};

template <class T, class Op>
struct InterpretEntry {
  static constexpr InterpretKernel value = interpret<T, Op>;
};

template <DataType kType>
StepKernel Entries<kType>::step(ReduceOp op) {
  return choose<kType, StepEntry>(op);
}

template <DataType kType>
InterpretKernel Entries<kType>::interpret(ReduceOp op) {
  return choose<kType, InterpretEntry>(op);
}

}  // namespace weft::device
