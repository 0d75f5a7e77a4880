// A kernel that needs more registers than 512 threads can have.
__global__ void __launch_bounds__(512, 1) spills(float* values, int count) {
  float kept[200];
#pragma unroll
  for (int i = 0; i < 200; ++i) kept[i] = values[threadIdx.x * 200 + i];
  for (int n = 0; n < count; ++n)
#pragma unroll
    for (int i = 0; i < 200; ++i) kept[i] = kept[i] * kept[(i + 7) % 200] + values[n];
#pragma unroll
  for (int i = 0; i < 200; ++i) values[threadIdx.x * 200 + i] = kept[i];
}
