// What planted.py runs: messages over links and packets, between ranks whose calls nothing holds
// back. Says whether the data was right.
#include <cstdio>
#include <memory>
#include <vector>

#include "kernels/cuda/entries.cuh"
#include "tests/emulator/emulator.h"
#include "tests/kernels/cuda/neighbours.h"
#include "tests/kernels/cuda/one_shot.cuh"

namespace weft::device {
namespace {

constexpr int kRanks = 3, kThreads = 40, kCalls = 6;
constexpr uint64_t kSeconds = 1'000'000'000;

using Streams = std::vector<std::unique_ptr<emulator::Stream>>;

int32_t input(int rank, uint32_t call, uint64_t i) {
  return static_cast<int32_t>(i * 7 + call * 1000 + rank * 100'000);
}

bool neighbours_agree(Streams& streams) {
  using World = Neighbours<int32_t>;
  const auto world = std::make_unique<World>();
  world->lay_out(kRanks);
  for (int rank = 0; rank < kRanks; ++rank)
    for (uint64_t i = 0; i < World::kCount; ++i) world->memory[rank].input[i] = input(rank, 0, i);
  for (int call = 0; call < 2; ++call)
    for (int rank = 0; rank < kRanks; ++rank)
      streams[rank]->launch(1, kThreads, interpret<int32_t, Sum>,
                            world->program(rank, DataType::int32, ReduceOp::sum), world->call(rank),
                            world->limits(rank, 100 * kSeconds));
  for (auto& stream : streams) stream->synchronize();
  bool right = true;
  for (int rank = 0; rank < kRanks; ++rank)
    for (uint64_t i = 0; i < World::kCount; ++i)
      right &= world->memory[rank].output[i] ==
               input(rank, 0, i) + input((rank + kRanks - 1) % kRanks, 0, i);
  return right;
}

bool one_shots_agree(Streams& streams) {
  constexpr uint64_t kCount = 200;
  std::vector<Boxes> boxes(kRanks);
  std::vector<State> states(kRanks);
  std::vector<int32_t> inputs[kRanks][kCalls], outputs[kRanks][kCalls];
  for (uint32_t call = 0; call < kCalls; ++call)
    for (int rank = 0; rank < kRanks; ++rank) {
      for (uint64_t i = 0; i < kCount; ++i) inputs[rank][call].push_back(input(rank, call, i));
      outputs[rank][call].resize(kCount);
    }
  for (uint32_t call = 0; call < kCalls; ++call)
    for (int rank = 0; rank < kRanks; ++rank) {
      OneShot a{};
      a.rank = rank;
      a.ranks = kRanks;
      for (int r = 0; r < kRanks; ++r) a.boxes[r] = &boxes[r];
      a.input = inputs[rank][call].data();
      a.output = outputs[rank][call].data();
      a.count = kCount;
      a.divisor = 1;
      a.call = call + 1;
      a.limits = {nullptr, 100 * kSeconds, nullptr};
      a.state = &states[rank];
      streams[rank]->launch(1, kThreads, one_shot<int32_t, Sum>, a);
    }
  for (auto& stream : streams) stream->synchronize();
  bool right = true;
  for (uint32_t call = 0; call < kCalls; ++call)
    for (int rank = 0; rank < kRanks; ++rank)
      for (uint64_t i = 0; i < kCount; ++i)
        right &=
            outputs[rank][call][i] == input(0, call, i) + input(1, call, i) + input(2, call, i);
  return right;
}

}  // namespace
}  // namespace weft::device

int main() {
  using namespace weft;
  bool right = true;
  for (uint32_t seed = 1; seed <= 4; ++seed) {
    emulator::Settings settings;
    settings.seed = seed;
    emulator::Device gpu(device::kRanks, settings);
    device::Streams streams;
    for (int i = 0; i < device::kRanks; ++i)
      streams.push_back(std::make_unique<emulator::Stream>(gpu));
    right &= device::neighbours_agree(streams) && device::one_shots_agree(streams);
  }
  std::puts(right ? "right" : "wrong data");
  return right ? 0 : 1;
}
