// The words of CUDA C++ that the kernels use, for the host's compiler.
#pragma once

#include <cstdint>

#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
// A block is an OS thread.
#define __shared__ static thread_local

namespace weft::emulator {

struct Index {
  unsigned x, y, z;
};

// Where the calling thread is.
const Index& thread_index();
const Index& block_index();
const Index& block_size();
const Index& grid_size();

// Lets others run; every loop that polls calls it.
void pause();

// Memory was written: the block does not only poll.
void wrote();

// A relaxed load of `address` was made, which orders nothing until the thread's next fence.
void polled(const void* address);
void fence();

// All live threads of the block; true if `vote` was, of any.
bool barrier(bool vote);

// Deposits 16 bytes of each lane of `mask` in the calling thread's warp and runs `act` once, on the
// last to arrive, with all 32 slots; then each gets its own back.
using WarpAction = void (*)(unsigned char (*slots)[16], void* context);
void with_warp(uint32_t mask, void* bytes16, WarpAction act, void* context);

}  // namespace weft::emulator

#define threadIdx (::weft::emulator::thread_index())
#define blockIdx (::weft::emulator::block_index())
#define blockDim (::weft::emulator::block_size())
#define gridDim (::weft::emulator::grid_size())

inline void __syncthreads() { ::weft::emulator::barrier(false); }
inline int __syncthreads_or(int vote) { return ::weft::emulator::barrier(vote != 0); }
inline int __any_sync(uint32_t mask, int vote) {
  int votes[4] = {vote};
  const auto act = [](unsigned char(*slots)[16], void* context) {
    bool any = false;
    for (int lane = 0; lane < 32; ++lane)
      if ((*static_cast<uint32_t*>(context) >> lane & 1) != 0)
        any |= *reinterpret_cast<int*>(slots[lane]) != 0;
    for (int lane = 0; lane < 32; ++lane) *reinterpret_cast<int*>(slots[lane]) = any;
  };
  ::weft::emulator::with_warp(mask, votes, act, &mask);
  return votes[0];
}
