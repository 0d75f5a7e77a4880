// The floating-point mode that results are computed in: rounding to nearest even, subnormals kept,
// nothing trapped. A caller's thread may be in another one (torch.set_flush_denormal, a library
// that was linked with -ffast-math), and on all ranks results have to be the same bits.
#pragma once

#include <cfenv>
#include <cstdint>

namespace weft {

// The thread is in that mode until the end of the scope. Results that have to be exact to the bit
// are to be computed in a function that the compiler does not see through: it may move arithmetic
// across changes of the mode.
class UsualFloatMode {
 public:
  UsualFloatMode() : before_(read()) {
    if ((before_ & kControl) != kUsual) [[unlikely]]
      write((before_ & ~kControl) | kUsual);
  }
  ~UsualFloatMode() {
    if ((before_ & kControl) != kUsual) [[unlikely]]
      write(before_);
  }
  UsualFloatMode(const UsualFloatMode&) = delete;

 private:
#if defined(__x86_64__)
  using Register = uint32_t;  // MXCSR; the lowest six bits are flags of what has happened
  static constexpr Register kControl = 0xffc0, kUsual = 0x1f80;
  static Register read() { return __builtin_ia32_stmxcsr(); }
  static void write(Register mode) { __builtin_ia32_ldmxcsr(mode); }
#elif defined(__aarch64__)
  using Register = uint64_t;  // FPCR
  static constexpr Register kControl = ~Register{0}, kUsual = 0;
  static Register read() {
    Register mode;
    asm volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
  }
  static void write(Register mode) { asm volatile("msr fpcr, %0" : : "r"(mode)); }
#else
  using Register = uint32_t;
  static constexpr Register kControl = 0, kUsual = 0;
  static Register read() { return 0; }
  static void write(Register) {}
#endif

  const Register before_;
};

// The same, and what the C library converts text to numbers by; not for hot paths.
class UsualFloatEnvironment {
 public:
  UsualFloatEnvironment() {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~UsualFloatEnvironment() { std::fesetenv(&before_); }
  UsualFloatEnvironment(const UsualFloatEnvironment&) = delete;

 private:
  std::fenv_t before_;
};

}  // namespace weft
