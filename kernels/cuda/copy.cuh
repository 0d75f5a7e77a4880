// Copy of one operand to all targets by a block, byte for byte, in accesses as wide as the
// operands' common alignment allows. All threads call it together; nothing in it synchronizes.
#pragma once

#include "kernels/cuda/machine.cuh"
#include "kernels/cuda/operands.h"

namespace weft::device {

__device__ __forceinline__ void copy_some_bytes(const Operands& operands, uint64_t begin,
                                                uint64_t end) {
  for (uint64_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
    const auto byte = static_cast<const unsigned char*>(operands.sources[0])[i];
    for (int t = 0; t < operands.target_count; ++t)
      static_cast<unsigned char*>(operands.targets[t])[i] = byte;
  }
}

__device__ __forceinline__ void store_word(Vec16* to, Vec16 word, bool streaming) {
  streaming ? ptx::store16_streaming(to, word) : ptx::store16(to, word);
}
template <class Word>
__device__ __forceinline__ void store_word(Word* to, Word word, bool) {
  *to = word;
}
__device__ __forceinline__ Vec16 load_word(const Vec16* from) { return ptx::load16(from); }
template <class Word>
__device__ __forceinline__ Word load_word(const Word* from) {
  return *from;
}

// Words at, at + threads, ..., counted from `skip` bytes on.
template <class Word, int kWords>
__device__ __forceinline__ void copy_step(const Operands& operands, uint64_t skip, uint64_t at) {
  Word words[kWords];
  const unsigned char* const source = static_cast<const unsigned char*>(operands.sources[0]) + skip;
  for (int i = 0; i < kWords; ++i)
    words[i] = load_word(reinterpret_cast<const Word*>(source) + at + i * blockDim.x);
  for (int t = 0; t < operands.target_count; ++t) {
    unsigned char* const target = static_cast<unsigned char*>(operands.targets[t]) + skip;
    for (int i = 0; i < kWords; ++i)
      store_word(reinterpret_cast<Word*>(target) + at + i * blockDim.x, words[i],
                 operands.streaming);
  }
}

template <class Word>
__device__ __forceinline__ void copy_words(const Operands& operands, uint64_t bytes) {
  constexpr int kUnroll = 8;
  const uint64_t to_aligned = -address_of(operands.targets[0]) % sizeof(Word);
  const uint64_t head = to_aligned < bytes ? to_aligned : bytes;
  const uint64_t count = (bytes - head) / sizeof(Word);
  copy_some_bytes(operands, 0, head);
  uint64_t at = threadIdx.x;
  for (; at + (kUnroll - 1) * blockDim.x < count; at += kUnroll * blockDim.x)
    copy_step<Word, kUnroll>(operands, head, at);
  for (; at < count; at += blockDim.x) copy_step<Word, 1>(operands, head, at);
  copy_some_bytes(operands, head + count * sizeof(Word), bytes);
}

// operands.count is in elements of `element_bytes`; scalar and divisor are not looked at.
__device__ inline void copy_block(const Operands& operands, uint32_t element_bytes) {
  const uint64_t bytes = operands.count * element_bytes;
  const uintptr_t bits = misalignment(operands);
  if (bits == 0) return copy_words<Vec16>(operands, bytes);
  if (bits % 8 == 0) return copy_words<uint64_t>(operands, bytes);
  if (bits % 4 == 0) return copy_words<uint32_t>(operands, bytes);
  if (bits % 2 == 0) return copy_words<uint16_t>(operands, bytes);
  copy_some_bytes(operands, 0, bytes);
}

}  // namespace weft::device
