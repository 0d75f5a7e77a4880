// A process with GPUs made of threads: linked into a program, it takes the place of what
// engine/device/cuda.h finds, so that all of the program has these GPUs.
#pragma once

namespace weft::test {

inline constexpr int kGpus = 2;

// The calling thread's current GPU from now on; -1: it has made no context, and false where that
// cannot be, because CUDA's threads always have one.
bool use_gpu(int ordinal);

}  // namespace weft::test
