#include "tests/emulator/emulator.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "tests/emulator/ptx.h"

namespace weft::emulator {
namespace {

// Thread i of each block writes, and reads what thread i + 1 wrote before the barrier.
void shift(int* values, int* to, int rounds) {
  const unsigned first = blockIdx.x * blockDim.x;
  const unsigned mine = first + threadIdx.x, next = first + (threadIdx.x + 1) % blockDim.x;
  for (int i = 0; i < rounds; ++i) {
    values[mine] += 1;
    __syncthreads();
    to[mine] += values[next];
    __syncthreads();
  }
}

TEST(Emulator, BarriersOrderTheThreadsOfABlock) {
  constexpr int kBlocks = 3, kThreads = 40, kRounds = 20;
  std::vector<int> values(kBlocks * kThreads), to(kBlocks * kThreads);
  Device device(2);
  Stream stream(device);
  stream.launch(kBlocks, kThreads, shift, values.data(), to.data(), kRounds);
  stream.synchronize();
  for (int got : to) EXPECT_EQ(got, kRounds * (kRounds + 1) / 2);
}

void vote(int* any) {
  const int of_block = __syncthreads_or(threadIdx.x == 33);
  const int none = __syncthreads_or(0);
  const uint32_t eight = 0xffu << (threadIdx.x % 32 / 8 * 8);
  const int of_eight = __any_sync(eight, threadIdx.x == 33);
  any[threadIdx.x] = of_block + 2 * none + 4 * of_eight;
}

TEST(Emulator, VotesCountOverTheBlockAndOverPartsOfWarps) {
  std::vector<int> any(64);
  Device device(1);
  Stream stream(device);
  stream.launch(1, 64, vote, any.data());
  stream.synchronize();
  for (int i = 0; i < 64; ++i) EXPECT_EQ(any[i], i >= 32 && i < 40 ? 5 : 1) << i;
}

void add(int* value, int amount) {
  if (threadIdx.x == 0) *value = *value * 10 + amount;
}

TEST(Emulator, AStreamRunsItsLaunchesInOrder) {
  int value = 0;
  Device device(4);
  Stream stream(device);
  for (int i = 1; i <= 5; ++i) stream.launch(1, 2, add, &value, i);
  stream.synchronize();
  EXPECT_EQ(value, 12345);
}

void await(uint32_t* mine, uint32_t* others) {
  device::ptx::store_release_sys(others, 1u);
  while (device::ptx::load_relaxed_sys(mine) == 0) pause();
  device::ptx::fence_acq_rel_sys();
}

TEST(Emulator, ADeviceIsWaitedForWithAllItsStreams) {
  Device device(2);
  Stream one(device), other(device);
  std::atomic<int> ended{0};
  device.synchronize();
  for (Stream* stream : {&one, &other})
    stream->launch(1, 1, [&ended] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      ++ended;
    });
  other.wait([&ended] { return ended == 2; });
  device.synchronize();
  EXPECT_EQ(ended, 2);
}

TEST(Emulator, StreamsRunBesideEachOther) {
  uint32_t flags[2] = {0, 0};
  Device device(2);
  Stream first(device), second(device);
  first.launch(1, 1, await, &flags[0], &flags[1]);
  second.launch(1, 1, await, &flags[1], &flags[0]);
  first.synchronize();
  second.synchronize();
}

// The first warp waits for the block, the second one's threads 32 and 33 for each other and a
// third.
void leave_half_at_the_barrier(uint32_t* flag) {
  if (threadIdx.x < 32)
    __syncthreads();
  else if (threadIdx.x < 34)
    __any_sync(7, 1);
  else
    __syncthreads();
  *flag = 1;
}

// Two streams of which each waits for the other.
void meet(int resident_blocks) {
  uint32_t flags[2] = {0, 0};
  Settings settings;
  settings.hang_seconds = 0.2;
  Device device(resident_blocks, settings);
  Stream first(device), second(device);
  first.launch(1, 1, await, &flags[0], &flags[1]);
  second.launch(1, 1, await, &flags[1], &flags[0]);
  first.synchronize();
}

void diverge() {
  uint32_t flag = 0;
  Device device(1);
  Stream stream(device);
  stream.launch(1, 35, leave_half_at_the_barrier, &flag);
  stream.synchronize();
}

void poll_for_ever() {
  uint32_t flags[2] = {0, 0};
  Settings settings;
  settings.hang_seconds = 0.2;
  Device device(1, settings);
  Stream stream(device);
  stream.launch(1, 1, await, &flags[0], &flags[1]);
  stream.synchronize();
}

// Which of the two reports comes first is chance.
bool says_no_room(int status) {
  return WIFEXITED(status) &&
         (WEXITSTATUS(status) == kNeverResident || WEXITSTATUS(status) == kHung);
}

class EmulatorDeathTest : public testing::Test {
 protected:
  void SetUp() override { testing::GTEST_FLAG(death_test_style) = "threadsafe"; }
};

TEST_F(EmulatorDeathTest, BlocksThatCannotAllBeResidentAreReported) {
  EXPECT_EXIT(meet(1), says_no_room, "never became resident|nothing but polling");
}

TEST_F(EmulatorDeathTest, ABarrierThatNotAllComeToIsReported) {
  EXPECT_EXIT(diverge(), testing::ExitedWithCode(kDiverged),
              "a barrier that not all threads come to");
}

TEST_F(EmulatorDeathTest, PollingForEverIsReported) {
  EXPECT_EXIT(poll_for_ever(), testing::ExitedWithCode(kHung),
              "nothing but polling in block 0 of 1");
}

}  // namespace
}  // namespace weft::emulator
