// Twins of kernels/cuda/ptx.cuh for the emulator, each as weak as the PTX memory model allows it to
// be, as far as the host can show it.
#pragma once

#include <chrono>
#include <cstring>

#include "kernels/cuda/vec16.h"
#include "kernels/number.h"
#include "tests/emulator/words.h"

namespace weft::device::ptx {

// -- words that others poll

template <class T>
inline T load_relaxed_sys(const T* from) {
  const T value = __atomic_load_n(from, __ATOMIC_RELAXED);
  emulator::polled(from);
  return value;
}
inline uint64_t load_acquire_sys(const uint64_t* from) {
  return __atomic_load_n(from, __ATOMIC_ACQUIRE);
}
inline void store_relaxed_sys(uint64_t* to, uint64_t value) {
  emulator::wrote();
  __atomic_store_n(to, value, __ATOMIC_RELAXED);
}
template <class T>
inline void store_release_sys(T* to, T value) {
  emulator::wrote();
  __atomic_store_n(to, value, __ATOMIC_RELEASE);
}
inline void fence_acq_rel_sys() { emulator::fence(); }
inline void fence_sc_sys() { emulator::fence(); }
inline uint32_t add_acq_rel_gpu(uint32_t* to, uint32_t value) {
  return __atomic_fetch_add(to, value, __ATOMIC_ACQ_REL);
}
inline uint32_t exchange_relaxed_gpu(uint32_t* to, uint32_t value) {
  return __atomic_exchange_n(to, value, __ATOMIC_RELAXED);
}

// -- data that carries its own flags

// Two atoms, in either order, with a gap between them.
inline Vec16 load_pair_relaxed_sys(const Vec16* from) {
  Vec16 value;
  value.high = __atomic_load_n(&from->high, __ATOMIC_RELAXED);
  value.low = __atomic_load_n(&from->low, __ATOMIC_RELAXED);
  return value;
}
inline void store_pair_relaxed_sys(Vec16* to, Vec16 value) {
  const bool high_first = (threadIdx.x & 1) != 0;
  emulator::wrote();
  __atomic_store_n(high_first ? &to->high : &to->low, high_first ? value.high : value.low,
                   __ATOMIC_RELAXED);
  emulator::pause();
  __atomic_store_n(high_first ? &to->low : &to->high, high_first ? value.low : value.high,
                   __ATOMIC_RELAXED);
}

// -- plain data

inline Vec16 load16(const void* from) {
  Vec16 value;
  std::memcpy(&value, __builtin_assume_aligned(from, 16), sizeof(value));
  return value;
}
inline void store16(void* to, Vec16 value) {
  emulator::wrote();
  std::memcpy(__builtin_assume_aligned(to, 16), &value, sizeof(value));
}
inline void store16_streaming(void* to, Vec16 value) { store16(to, value); }

// -- narrow floats, two at a time: as the hardware converts, with NaNs of its own

template <class Format>
inline uint32_t bits_of(float value, uint32_t nan) {
  return value == value ? from_float<Format>(value).bits : nan;
}
inline float float_of_f16(uint32_t bits) { return to_float(Float16{static_cast<uint16_t>(bits)}); }
inline uint32_t f16x2_of(float low, float high) {
  return bits_of<Float16>(low, 0x7fff) | bits_of<Float16>(high, 0x7fff) << 16;
}
inline uint32_t bf16x2_of(float low, float high) {
  return bits_of<BFloat16>(low, 0x7fff) | bits_of<BFloat16>(high, 0x7fff) << 16;
}
template <class Format>
inline uint32_t halves_of(uint32_t bits) {
  return f16x2_of(to_float(Format{static_cast<uint8_t>(bits)}),
                  to_float(Format{static_cast<uint8_t>(bits >> 8)}));
}
inline uint32_t f16x2_of_e4m3x2(uint32_t bits) { return halves_of<Fp8E4M3>(bits); }
inline uint32_t f16x2_of_e5m2x2(uint32_t bits) { return halves_of<Fp8E5M2>(bits); }
inline uint32_t e4m3x2_of(float low, float high) {
  return bits_of<Fp8E4M3>(low, 0x7f) | bits_of<Fp8E4M3>(high, 0x7f) << 8;
}
inline uint32_t e5m2x2_of(float low, float high) {
  return bits_of<Fp8E5M2>(low, 0x7f) | bits_of<Fp8E5M2>(high, 0x7f) << 8;
}

// -- time

inline uint64_t global_timer_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}
inline void nanosleep(uint32_t) { emulator::pause(); }

}  // namespace weft::device::ptx
