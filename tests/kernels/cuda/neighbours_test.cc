// The interpreter kernel on the smallest program: every type, ranks as threads and as processes,
// and how it gives up.
#include "tests/kernels/cuda/neighbours.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "kernels/cuda/kernels.h"
#include "kernels/reduce.h"
#include "tests/emulator/emulator.h"
#include "tests/support/shared_value.h"

namespace weft::device {
namespace {

constexpr int kThreads = 32;
constexpr uint64_t kMinutes = 60'000'000'000;

// An emulated GPU with a stream for each rank.
struct Gpu {
  explicit Gpu(int ranks) : device(ranks) {
    for (int i = 0; i < ranks; ++i) streams.push_back(std::make_unique<emulator::Stream>(device));
  }
  void synchronize() {
    for (auto& stream : streams) stream->synchronize();
  }
  emulator::Device device;
  std::vector<std::unique_ptr<emulator::Stream>> streams;
};

template <class T>
void launch(emulator::Stream& stream, Neighbours<T>& world, int rank, DataType type, ReduceOp op,
            uint64_t timeout_ns = 2 * kMinutes) {
  stream.launch(1, kThreads, interpret_kernel(op, type), world.program(rank, type, op),
                world.call(rank), world.limits(rank, timeout_ns));
}

template <class T>
void fill(Neighbours<T>& world) {
  std::mt19937 random(1);
  for (auto& memory : world.memory)
    for (T& element : memory.input) {
      unsigned char bytes[sizeof(T)];
      for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random()) & 0x3f;
      std::memcpy(&element, bytes, sizeof(T));
    }
}

template <class T>
void expect_right(const Neighbours<T>& world, DataType type, ReduceOp op) {
  for (int rank = 0; rank < world.ranks; ++rank) {
    const int before = (rank + world.ranks - 1) % world.ranks;
    const void* const from[] = {world.memory[before].input, world.memory[rank].input};
    std::vector<T> want(Neighbours<T>::kCount);
    void* const to = want.data();
    reduce_kernel(op, type, Isa::portable)({from, 2, &to, 1, want.size()});
    EXPECT_EQ(std::memcmp(world.memory[rank].output, to, want.size() * sizeof(T)), 0)
        << name(op) << " " << name(type) << ", rank " << rank << " of " << world.ranks;
    EXPECT_EQ(world.memory[rank].report.complete, 0u);
  }
}

template <DataType kType>
void check_type() {
  using T = typename ElementOf<kType>::type;
  for (ReduceOp op : {ReduceOp::sum, ReduceOp::prod, ReduceOp::min, ReduceOp::max, ReduceOp::bxor})
    if (defined(op, kType)) {
      const auto world = std::make_unique<Neighbours<T>>();
      world->lay_out(2);
      fill(*world);
      Gpu gpu(2);
      for (int call = 0; call < 2; ++call)
        for (int rank = 0; rank < 2; ++rank) launch(*gpu.streams[rank], *world, rank, kType, op);
      gpu.synchronize();
      expect_right(*world, kType, op);
    }
}

TEST(Interpreter, FoldsEveryType) {
  check_type<DataType::int8>();
  check_type<DataType::uint8>();
  check_type<DataType::int16>();
  check_type<DataType::uint16>();
  check_type<DataType::int32>();
  check_type<DataType::uint32>();
  check_type<DataType::int64>();
  check_type<DataType::uint64>();
  check_type<DataType::float16>();
  check_type<DataType::bfloat16>();
  check_type<DataType::float32>();
  check_type<DataType::float64>();
  check_type<DataType::fp8_e4m3>();
  check_type<DataType::fp8_e5m2>();
  check_type<DataType::complex64>();
  check_type<DataType::complex128>();
  check_type<DataType::boolean>();
}

TEST(Interpreter, MeetsRanksThatAreProcesses) {
  using World = Neighbours<float>;
  for (int ranks : {2, 4}) {
    World& world = test::shared_value<World>();
    world.lay_out(ranks);
    fill(world);
    std::vector<pid_t> children;
    for (int rank = 0; rank < ranks; ++rank) {
      const pid_t child = ::fork();
      ASSERT_GE(child, 0);
      if (child == 0) {  // a GPU of its own
        {
          Gpu gpu(1);
          for (int call = 0; call < 3; ++call)
            launch(*gpu.streams[0], world, rank, DataType::float32, ReduceOp::sum);
          gpu.synchronize();
        }
        ::_exit(0);
      }
      children.push_back(child);
    }
    for (pid_t child : children) {
      int status = -1;
      ASSERT_EQ(::waitpid(child, &status, 0), child);
      EXPECT_EQ(status, 0);
    }
    expect_right(world, DataType::float32, ReduceOp::sum);
    EXPECT_EQ(world.memory[0].state.calls, 3u);
  }
}

TEST(Interpreter, NamesThePeerThatDoesNotComeAndStaysFailed) {
  const auto world = std::make_unique<Neighbours<int32_t>>();
  world->lay_out(3);
  Gpu gpu(2);
  for (int call = 0; call < 2; ++call)  // rank 2 makes none
    for (int rank = 0; rank < 2; ++rank)
      launch(*gpu.streams[rank], *world, rank, DataType::int32, ReduceOp::sum, 50'000'000);
  gpu.synchronize();
  const Report& first = world->memory[0].report;
  EXPECT_EQ(first.complete, 1u);
  EXPECT_EQ(first.cause, Cause::timed_out);
  EXPECT_EQ(first.awaited, Awaited::message);
  EXPECT_EQ(first.peer, 2);
  EXPECT_EQ(first.step, 1u);
  EXPECT_EQ(count_of(first.needed), 1u);
  EXPECT_EQ(first.seen, 0u);
  const Report& second = world->memory[1].report;
  EXPECT_EQ(second.cause, Cause::timed_out);
  EXPECT_EQ(second.peer, second.awaited == Awaited::credit ? 2 : 0);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(world->memory[rank].failed, 1u);
    EXPECT_EQ(world->memory[rank].state.calls, 0u);
  }
}

TEST(Interpreter, EndsWhenItIsAborted) {
  const auto world = std::make_unique<Neighbours<int32_t>>();
  world->lay_out(2);
  Gpu gpu(1);
  launch(*gpu.streams[0], *world, 0, DataType::int32, ReduceOp::sum, 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  __atomic_store_n(&world->memory[0].abort, 1u, __ATOMIC_RELEASE);
  gpu.synchronize();
  EXPECT_EQ(world->memory[0].report.cause, Cause::aborted);
  EXPECT_EQ(world->memory[0].report.peer, 1);
}

}  // namespace
}  // namespace weft::device
