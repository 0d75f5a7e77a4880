// Reduction of n operands by a block, in device memory and in mapped memory of peers or the host.
//
// The bits are those of kernels/reduce.h, whatever the alignment. All threads of the block call
// run() together; nothing in it synchronizes.
#pragma once

#include <cstring>

#include "kernels/cuda/copy.cuh"
#include "kernels/cuda/operands.h"
#include "kernels/cuda/vector.cuh"

namespace weft::device {

template <class T, class Op>
struct BlockFold {
  using V = Vector<T, Op>;
  using Acc = typename V::Acc;
  using Rules = ElementRules<T>;

  template <int kVectors>
  struct Registers {
    Vec16 at[kVectors];
  };

  template <int kVectors>
  static __device__ __forceinline__ Registers<kVectors> load(const void* from, uint64_t at) {
    Registers<kVectors> loaded;
    for (int v = 0; v < kVectors; ++v)
      loaded.at[v] = ptx::load16(static_cast<const Vec16*>(from) + at + v * blockDim.x);
    return loaded;
  }

  template <bool kModified>
  static __device__ __forceinline__ Acc operand(const Operands& operands, int source, Vec16 stored,
                                                typename Rules::Acc scalar) {
    const Acc value = V::unpack(stored);
    if constexpr (kModified) {
      if (is_scaled(operands, source)) return V::scale(value, scalar);
    }
    return value;
  }

  // Vectors at, at + threads, ... of every operand, counted from `skip` bytes on. While one source
  // is folded the next one's loads are under way.
  template <int kVectors, bool kModified>
  static __device__ __forceinline__ void step(const Operands& operands, uint64_t skip, uint64_t at,
                                              typename Rules::Acc scalar) {
    const auto source = [&](int k) {
      return static_cast<const unsigned char*>(operands.sources[k]) + skip;
    };
    const int count = operands.source_count;
    Registers<kVectors> now = load<kVectors>(source(0), at);
    Registers<kVectors> next = count > 1 ? load<kVectors>(source(1), at) : now;
    Acc acc[kVectors];
    for (int v = 0; v < kVectors; ++v) acc[v] = operand<kModified>(operands, 0, now.at[v], scalar);
    for (int k = 1; k < count; ++k) {
      now = next;
      if (k + 1 < count) next = load<kVectors>(source(k + 1), at);
      for (int v = 0; v < kVectors; ++v)
        acc[v] = V::fold(acc[v], operand<kModified>(operands, k, now.at[v], scalar));
    }
    for (int v = 0; v < kVectors; ++v) {
      if constexpr (kModified) {
        if (operands.divisor > 1) acc[v] = V::divide(acc[v], operands.divisor);
      }
      now.at[v] = V::pack(acc[v]);
    }
    for (int t = 0; t < operands.target_count; ++t) {
      auto* const target = static_cast<unsigned char*>(operands.targets[t]) + skip;
      for (int v = 0; v < kVectors; ++v) {
        Vec16* const to = reinterpret_cast<Vec16*>(target) + at + v * blockDim.x;
        operands.streaming ? ptx::store16_streaming(to, now.at[v]) : ptx::store16(to, now.at[v]);
      }
    }
  }

  template <bool kModified>
  static __device__ __forceinline__ void vectors(const Operands& operands, uint64_t skip,
                                                 uint64_t count, typename Rules::Acc scalar) {
    constexpr int kUnroll = kModified ? 2 : V::kUnroll;
    uint64_t at = threadIdx.x;
    for (; at + (kUnroll - 1) * blockDim.x < count; at += kUnroll * blockDim.x)
      step<kUnroll, kModified>(operands, skip, at, scalar);
    for (; at < count; at += blockDim.x) step<1, kModified>(operands, skip, at, scalar);
  }

  // Of any alignment.
  static __device__ T load_element(const void* from, uint64_t at) {
    T value;
    std::memcpy(&value, static_cast<const unsigned char*>(from) + at * sizeof(T), sizeof(T));
    return value;
  }

  // Elements [begin, end), one at a time.
  static __device__ void elements(const Operands& operands, uint64_t begin, uint64_t end,
                                  typename Rules::Acc scalar) {
    for (uint64_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
      typename Rules::Acc acc{};
      for (int k = 0; k < operands.source_count; ++k) {
        typename Rules::Acc value = Rules::unpack(load_element(operands.sources[k], i));
        if constexpr (std::is_same_v<Op, Sum>) {
          if (is_scaled(operands, k)) value = Rules::scale(value, scalar);
        }
        acc = k == 0 ? value : Op::apply(acc, value);
      }
      if constexpr (std::is_same_v<Op, Sum>) {
        if (operands.divisor > 1) acc = Rules::divide(acc, operands.divisor);
      }
      const T result = Rules::pack(acc);
      for (int t = 0; t < operands.target_count; ++t)
        std::memcpy(static_cast<unsigned char*>(operands.targets[t]) + i * sizeof(T), &result,
                    sizeof(T));
    }
  }

  // REQUIRES: source_count > 1, or modified() (only what folds like sum may be modified).
  static __device__ void run(const Operands& operands) {
    const auto base = address_of(operands.targets[0]);
    typename Rules::Acc scalar{};
    if (operands.scalar != nullptr) scalar = Rules::unpack(load_element(operands.scalar, 0));
    const uint64_t head = -base % sizeof(Vec16) / sizeof(T);
    if (misalignment(operands) != 0 || base % sizeof(T) != 0 || operands.count < head)
      return elements(operands, 0, operands.count, scalar);
    const uint64_t count = (operands.count - head) / V::kCount;
    elements(operands, 0, head, scalar);
    if constexpr (std::is_same_v<Op, Sum>) {
      if (is_modified(operands))
        vectors<true>(operands, head * sizeof(T), count, scalar);
      else
        vectors<false>(operands, head * sizeof(T), count, scalar);
    } else {
      vectors<false>(operands, head * sizeof(T), count, scalar);
    }
    elements(operands, head + count * V::kCount, operands.count, scalar);
  }
};

template <class T, class Op>
__device__ __forceinline__ void fold_or_copy(const Operands& operands) {
  if (operands.source_count == 1 && !is_modified(operands))
    copy_block(operands, sizeof(T));
  else
    BlockFold<T, Op>::run(operands);
}

}  // namespace weft::device
