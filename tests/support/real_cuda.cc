// What emulated_cuda.h promises to tests of whole programs, on this machine's
// GPUs; without any the program ends with status 77.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "engine/device/cuda.h"
#include "engine/device/queues.h"
#include "tests/support/emulated_cuda.h"

namespace weft::test {
namespace {

class GpusAreThere final : public testing::Environment {
 public:
  void SetUp() override {
    ask_for_device_queues();
    const Result<int> gpus = cuda_device_count();
    if (gpus.ok()) return;
    std::printf("%s\n", std::string(gpus.status().message()).c_str());
    std::exit(77);  // tests that an environment skips would count as passed
  }
};

[[maybe_unused]] testing::Environment* const gpus_are_there =
    testing::AddGlobalTestEnvironment(new GpusAreThere);

}  // namespace

bool use_gpu(int ordinal) {
  if (ordinal < 0) return false;
  EXPECT_EQ(cudaSetDevice(ordinal), cudaSuccess);
  EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
  return true;
}

}  // namespace weft::test
