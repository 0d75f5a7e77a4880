// Device programs, run by the interpreter kernel itself, on a GPU made of threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>

#include "kernels/cuda/kernels.h"
#include "tests/emulator/emulator.h"
#include "tests/support/device_cases.h"
#include "tests/support/sanitized.h"

namespace weft::test {
namespace {

constexpr int kThreads = 32;

// All ranks on one device, as threads of one process are, with streams of their own.
void run_calls(std::span<const DeviceCase> forms, int ranks, uint64_t seed) {
  Draw draw(seed);
  DeviceWorld world(small_device_shape(ranks), seed);
  const Status added = add_calls(world, forms, draw);
  ASSERT_TRUE(added.ok()) << added.to_string();

  const auto blocks_most = static_cast<uint32_t>(1 + draw.below(3));
  emulator::Device device(static_cast<int>(2 * blocks_most) * ranks,
                          {.seed = static_cast<uint32_t>(seed + 1)});
  std::vector<std::unique_ptr<emulator::Stream>> streams;
  for (size_t i = 0; i < world.streams(); ++i)
    streams.push_back(std::make_unique<emulator::Stream>(device));
  const std::string wrong = world.run_by([&](size_t stream, const DeviceLaunch& it) {
    const device::Program& p = it.program;
    const uint32_t blocks = std::max(1u, std::min(blocks_most, p.lane_count));
    streams[stream]->launch(static_cast<int>(blocks), kThreads,
                            device::interpret_kernel(p.op, p.type), p, it.call, device::Limits{});
    streams[stream]->synchronize();
  });
  ASSERT_EQ(wrong, "") << "seed " << seed;
}

class Kernel : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Kernel, testing::Values(1, 2, 3, 5, 8));

TEST_P(Kernel, GivesWhatTheOracleGives) {
  const int ranks = GetParam();
  std::vector<DeviceCase> all = device_forms(ranks);
  std::shuffle(all.begin(), all.end(), std::mt19937_64(ranks));
  if (kSanitized || ranks > 3) all.resize(std::min<size_t>(all.size(), kSanitized ? 20 : 60));
  for (size_t begin = 0; begin < all.size(); begin += 5) {
    const size_t calls = std::min<size_t>(5, all.size() - begin);
    ASSERT_NO_FATAL_FAILURE(run_calls({all.data() + begin, calls}, ranks, begin));
  }
}

// Calls behind each other with buffers of their own, which nobody may touch, or take for those of
// another call, once their rank is through.
class BetweenBuffers : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, BetweenBuffers, testing::Range(1, 9));

TEST_P(BetweenBuffers, GiveWhatTheOracleGives) {
  const int ranks = GetParam();
  for (uint64_t seed = 0; seed < (kSanitized ? 1 : 4); ++seed)
    ASSERT_NO_FATAL_FAILURE(run_calls(forms_between_buffers(ranks, 5, seed), ranks, seed));
}

}  // namespace
}  // namespace weft::test
