// A thread that rounds up and takes subnormals for zero, as a caller's may.
#pragma once

#include <cfenv>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace weft::test {

class UnusualFloatMode {
 public:
  UnusualFloatMode() {
    std::fegetenv(&before_);
    std::fesetround(FE_UPWARD);
#if defined(__x86_64__)
    constexpr unsigned kFlushToZero = 0x8000, kSubnormalsAreZero = 0x40;
    _mm_setcsr(_mm_getcsr() | kFlushToZero | kSubnormalsAreZero);
#elif defined(__aarch64__)
    constexpr unsigned long kFlushToZero = 1ul << 24;
    unsigned long mode;
    asm volatile("mrs %0, fpcr" : "=r"(mode));
    asm volatile("msr fpcr, %0" : : "r"(mode | kFlushToZero));
#endif
  }
  ~UnusualFloatMode() { std::fesetenv(&before_); }
  UnusualFloatMode(const UnusualFloatMode&) = delete;

 private:
  std::fenv_t before_;
};

}  // namespace weft::test
