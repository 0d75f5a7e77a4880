// The cheapest clock there is, for time stamps that are taken always and looked at hardly ever.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace weft {

// What the processor's counter says: it counts at a constant rate, the same on all cores.
inline uint64_t ticks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  uint64_t value;
  asm volatile("mrs %0, cntvct_el0" : "=r"(value));
  return value;
#else
  return static_cast<uint64_t>(steady_clock().now_ns());
#endif
}

// The same, once all stores before it are where other cores see them (x86, AArch64; elsewhere at
// once). Takes as long as they do.
inline uint64_t ticks_after_stores() {
#if defined(__x86_64__)
  asm volatile("mfence\n\tlfence" : : : "memory");
#elif defined(__aarch64__)
  asm volatile("dsb ish\n\tisb" : : : "memory");
#endif
  return ticks();
}

// The time of day, in nanoseconds since 1970.
int64_t unix_now_ns();

// Tells when ticks were, of any moment since it was made.
class TickDial {
 public:
  TickDial() : first_(now()) {}

  // Nanoseconds since 1970, as the system's clock counts them now, however it was set since. Good
  // to a millisecond, or better the longer ago this was made.
  int64_t unix_ns(uint64_t at) const { return unix_ns(first_, now(), at); }

  struct Moment {
    uint64_t ticks;
    int64_t steady_ns;  // of a clock that nobody sets
    int64_t unix_ns;
  };
  // The same by these two moments.
  static int64_t unix_ns(const Moment& first, const Moment& last, uint64_t at);

 private:
  static Moment now();

  Moment first_;
};

}  // namespace weft
