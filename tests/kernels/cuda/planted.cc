// What planted.py runs: messages over links, packets, and ranks that read each other's Input, in
// calls that nothing holds back. Says whether the data was right.
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
  std::vector<uint32_t> failed(kRanks);
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
      a.failed = &failed[rank];
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

// Each rank adds the next one's Input, wherever that tells it is, to its own.
struct Visitors {
  static constexpr uint64_t kCount = 200;
  struct Memory {
    State state;
    uint32_t failed;
    uint64_t entered, done;
    Told told[kRanks];
    Told* tell[kRanks];
    Lane lane;
    Step steps[3];
    Place place;
    Operand operands[3];
    Wait waits[2];
    Post posts[2];
  } memory[kRanks];

  // REQUIRES: *this is zeros.
  void lay_out(int rank) {
    Memory& m = memory[rank];
    const int host = (rank + 1) % kRanks, guest = (rank + kRanks - 1) % kRanks;
    for (int peer = 0; peer < kRanks; ++peer)
      m.tell[peer] = peer == rank ? nullptr : &memory[peer].told[rank];
    m.lane = {1, 0, 3, 0};
    m.place = {kCount, 0, 0, 0};
    m.operands[0] = {nullptr, 0, 0, Space::input};
    m.operands[1] = {nullptr, 0, host, Space::peer_input};
    m.operands[2] = {nullptr, 0, 0, Space::output};
    m.waits[0] = {&m.entered, 0, host};
    m.waits[1] = {&m.done, 0, guest};
    m.posts[0] = {&memory[guest].entered, guest};
    m.posts[1] = {&memory[host].done, host};
    for (uint32_t i = 0; i < 3; ++i) {
      Step& step = m.steps[i];
      step.times = 1;
      step.sources = i == 1 ? 2 : 0;
      step.first_target = 2;
      step.targets = i == 1 ? 1 : 0;
      step.first_wait = i == 2 ? 1 : 0;
      step.waits = i == 0 ? 0 : 1;
      step.first_post = i;
      step.posts = i == 2 ? 0 : 1;
      step.from = step.to = -1;
      step.begins = step.ends = true;
    }
  }

  Program program(int rank) {
    Memory& m = memory[rank];
    Program p{};
    p.lanes = &m.lane;
    p.steps = m.steps;
    p.places = &m.place;
    p.operands = m.operands;
    p.waits = m.waits;
    p.posts = m.posts;
    p.state = &m.state;
    p.failed = &m.failed;
    p.told = m.told;
    p.tell = m.tell;
    p.segment = kCount;
    p.divisor = 1;
    p.lane_count = p.copies = p.halves = p.slots = 1;
    p.element_bytes = sizeof(int32_t);
    p.rank = rank;
    p.ranks = kRanks;
    p.type = DataType::int32;
    p.op = ReduceOp::sum;
    p.reduces = p.collective = true;
    return p;
  }
};

bool visitors_agree(Streams& streams) {
  const auto world = std::make_unique<Visitors>();
  for (int rank = 0; rank < kRanks; ++rank) world->lay_out(rank);
  std::vector<int32_t> inputs[kRanks][kCalls], outputs[kRanks][kCalls];
  for (uint32_t call = 0; call < kCalls; ++call)
    for (int rank = 0; rank < kRanks; ++rank) {
      for (uint64_t i = 0; i < Visitors::kCount; ++i)
        inputs[rank][call].push_back(input(rank, call, i));
      outputs[rank][call].resize(Visitors::kCount);
      Call arguments{};
      arguments.input = inputs[rank][call].data();
      arguments.output = outputs[rank][call].data();
      streams[rank]->launch(1, kThreads, interpret<int32_t, Sum>, world->program(rank), arguments,
                            Limits{nullptr, 100 * kSeconds, nullptr});
    }
  for (auto& stream : streams) stream->synchronize();
  bool right = true;
  for (uint32_t call = 0; call < kCalls; ++call)
    for (int rank = 0; rank < kRanks; ++rank)
      for (uint64_t i = 0; i < Visitors::kCount; ++i)
        right &=
            outputs[rank][call][i] == input(rank, call, i) + input((rank + 1) % kRanks, call, i);
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
    right &= device::neighbours_agree(streams) && device::one_shots_agree(streams) &&
             device::visitors_agree(streams);
  }
  std::puts(right ? "right" : "wrong data");
  return right ? 0 : 1;
}
