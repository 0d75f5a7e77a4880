// The machine that kernels run on: a GPU, or the emulator of the tests (tests/emulator).
#pragma once

#if defined(__CUDACC__)
#include "kernels/cuda/ptx.cuh"
#else
#include <emulator/ptx.h>
#endif
