// One PTX instruction per function; nothing above this file writes any.
//
// Memory orders are those of the PTX memory model, at system scope where another GPU or the host
// takes part. tests/emulator/ptx.h has a twin of each for the host's compiler.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/vec16.h"

namespace weft::device::ptx {

// -- words that others poll

__device__ __forceinline__ uint32_t load_relaxed_sys(const uint32_t* from) {
  uint32_t value;
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
}
__device__ __forceinline__ uint64_t load_relaxed_sys(const uint64_t* from) {
  uint64_t value;
  asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
  return value;
}
// Once it has seen what was released, what was written before that is seen.
__device__ __forceinline__ uint64_t load_acquire_sys(const uint64_t* from) {
  uint64_t value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
  return value;
}
__device__ __forceinline__ void store_relaxed_sys(uint64_t* to, uint64_t value) {
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(to), "l"(value) : "memory");
}
__device__ __forceinline__ void store_release_sys(uint32_t* to, uint32_t value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
}
__device__ __forceinline__ void store_release_sys(uint64_t* to, uint64_t value) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(to), "l"(value) : "memory");
}
// After a relaxed load saw what it polled for, what was written before that is seen.
__device__ __forceinline__ void fence_acq_rel_sys() {
  asm volatile("fence.acq_rel.sys;" ::: "memory");
}
__device__ __forceinline__ void fence_sc_sys() { asm volatile("fence.sc.sys;" ::: "memory"); }
// Between blocks of one kernel only.
__device__ __forceinline__ uint32_t add_acq_rel_gpu(uint32_t* to, uint32_t value) {
  uint32_t before;
  asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], %2;"
               : "=r"(before)
               : "l"(to), "r"(value)
               : "memory");
  return before;
}
__device__ __forceinline__ uint32_t exchange_relaxed_gpu(uint32_t* to, uint32_t value) {
  uint32_t before;
  asm volatile("atom.exch.relaxed.gpu.global.b32 %0, [%1], %2;"
               : "=r"(before)
               : "l"(to), "r"(value)
               : "memory");
  return before;
}

// -- data that carries its own flags

// Two atoms of 8 bytes: the model takes a vector access apart, in any order.
__device__ __forceinline__ Vec16 load_pair_relaxed_sys(const Vec16* from) {
  Vec16 value;
  asm volatile("ld.relaxed.sys.global.v2.b64 {%0, %1}, [%2];"
               : "=l"(value.low), "=l"(value.high)
               : "l"(from)
               : "memory");
  return value;
}
__device__ __forceinline__ void store_pair_relaxed_sys(Vec16* to, Vec16 value) {
  asm volatile("st.relaxed.sys.global.v2.b64 [%0], {%1, %2};" ::"l"(to), "l"(value.low),
               "l"(value.high)
               : "memory");
}
// -- plain data

// Never by the read-only path (ld.global.nc): what peers write must be seen. REQUIRES: aligned, and
// of global memory, as what is mapped is.
__device__ __forceinline__ Vec16 load16(const void* from) {
  __builtin_assume(__isGlobal(from));
  const ulonglong2 value = *static_cast<const ulonglong2*>(from);
  return {value.x, value.y};
}
__device__ __forceinline__ void store16(void* to, Vec16 value) {
  __builtin_assume(__isGlobal(to));
  *static_cast<ulonglong2*>(to) = make_ulonglong2(value.low, value.high);
}
// Past the caches: it is not read again soon.
__device__ __forceinline__ void store16_streaming(void* to, Vec16 value) {
  __builtin_assume(__isGlobal(to));
  __stcs(static_cast<ulonglong2*>(to), make_ulonglong2(value.low, value.high));
}

// -- narrow floats, two at a time

__device__ __forceinline__ float float_of_f16(uint32_t bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(static_cast<uint16_t>(bits)));
  return value;
}
// To nearest even; what is too large becomes infinity and NaN 0x7fff.
__device__ __forceinline__ uint32_t f16x2_of(float low, float high) {
  uint32_t bits;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}
__device__ __forceinline__ uint32_t bf16x2_of(float low, float high) {
  uint32_t bits;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}
// Exact.
__device__ __forceinline__ uint32_t f16x2_of_e4m3x2(uint32_t bits) {
  uint32_t halves;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(static_cast<uint16_t>(bits)));
  return halves;
}
__device__ __forceinline__ uint32_t f16x2_of_e5m2x2(uint32_t bits) {
  uint32_t halves;
  asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(halves) : "h"(static_cast<uint16_t>(bits)));
  return halves;
}
// To nearest even; what is too large becomes the largest finite value and NaN 0x7f.
__device__ __forceinline__ uint32_t e4m3x2_of(float low, float high) {
  uint16_t bits;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(bits) : "f"(high), "f"(low));
  return bits;
}
__device__ __forceinline__ uint32_t e5m2x2_of(float low, float high) {
  uint16_t bits;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(bits) : "f"(high), "f"(low));
  return bits;
}

// -- time

// Nanoseconds; steps of a microsecond on some GPUs.
__device__ __forceinline__ uint64_t global_timer_ns() {
  uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}
__device__ __forceinline__ void nanosleep(uint32_t ns) {
  asm volatile("nanosleep.u32 %0;" ::"r"(ns));
}

}  // namespace weft::device::ptx
