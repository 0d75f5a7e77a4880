// For nvcc: what the emulator runs of packets must be a kernel, too.
#include "tests/kernels/cuda/one_shot.cuh"

namespace weft::device {

template __global__ void one_shot<int8_t, Max>(OneShot);
template __global__ void one_shot<int64_t, Prod>(OneShot);
template __global__ void one_shot<Float16, Sum>(OneShot);
template __global__ void one_shot<Fp8E4M3, Sum>(OneShot);
template __global__ void one_shot<float, Min>(OneShot);
template __global__ void one_shot<Complex<double>, Prod>(OneShot);

}  // namespace weft::device
