#include "kernels/reduce.h"

#include "kernels/isa.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace weft {
namespace {

#if defined(__x86_64__)
bool has_f16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

bool has_avx2() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") && has_f16c();
}

// VBMI leaves out the first generation, whose clock drops for vectors this wide anyway.
bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vbmi");
}
#endif

}  // namespace

Isa best_isa() {
  for (Isa isa : {Isa::avx512, Isa::avx2, Isa::neon})
    if (available(isa)) return isa;
  return Isa::portable;
}

std::string_view name(Isa isa) {
  switch (isa) {
    case Isa::portable: return "portable";
    case Isa::avx2: return "avx2";
    case Isa::avx512: return "avx512";
    case Isa::neon: return "neon";
  }
  return "unknown";
}

bool available(Isa isa) {
  if (isa == Isa::portable) return true;
#if defined(__x86_64__)
  if (isa == Isa::avx2) return has_avx2();
  if (isa == Isa::avx512) return has_avx512();
#elif defined(__aarch64__)
  if (isa == Isa::neon) return true;
#endif
  return false;
}

ReduceKernel reduce_kernel(ReduceOp op, DataType type, Isa isa) {
  if (!available(isa)) return nullptr;
#if defined(__x86_64__)
  if (isa == Isa::avx2) return avx2_kernel(op, type);
  if (isa == Isa::avx512) return avx512_kernel(op, type);
#elif defined(__aarch64__)
  if (isa == Isa::neon) return neon_kernel(op, type);
#endif
  return portable_kernel(op, type);
}

ReduceKernel reduce_kernel(ReduceOp op, DataType type) {
  static const Isa isa = best_isa();
  return reduce_kernel(op, type, isa);
}

}  // namespace weft
