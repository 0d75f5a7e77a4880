// Messages that carry their own flags: a one-shot all_reduce made of them, by ranks that nothing
// holds back between calls, against the CPU's kernels.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "kernels/reduce.h"
#include "tests/emulator/emulator.h"
#include "tests/kernels/cuda/one_shot.cuh"
#include "tests/support/sanitized.h"

namespace weft::device {
namespace {

// Ranks with inputs of random bytes.
class World {
 public:
  World(int ranks, size_t bytes, uint32_t seed) : bytes_(bytes), random_(seed) {
    for (int rank = 0; rank < ranks; ++rank) {
      boxes_.push_back(std::make_unique<Boxes>());
      failed_.push_back(std::make_unique<uint32_t>(0));
      inputs_.emplace_back(bytes + 1);
      outputs_.emplace_back(bytes + 1);
      for (unsigned char& byte : inputs_.back()) byte = static_cast<unsigned char>(random_());
    }
  }
  int ranks() const { return static_cast<int>(inputs_.size()); }

  OneShot call(int rank, uint64_t count, uint32_t number, size_t shift) {
    OneShot a{};
    a.rank = rank;
    a.ranks = ranks();
    for (int r = 0; r < ranks(); ++r) a.boxes[r] = boxes_[r].get();
    a.input = inputs_[rank].data() + shift;
    a.output = outputs_[rank].data() + shift;
    a.count = count;
    a.divisor = 1;
    a.call = number;
    a.limits = {nullptr, 0, nullptr};
    a.failed = failed_[rank].get();
    return a;
  }

  void check(ReduceOp op, DataType type, uint64_t count, int64_t divisor, size_t shift) {
    std::vector<unsigned char> want(bytes_ + 1);
    std::vector<const void*> from;
    for (auto& input : inputs_) from.push_back(input.data() + shift);
    void* const to = want.data();
    reduce_kernel(op, type,
                  Isa::portable)({from.data(), ranks(), &to, 1, count, nullptr, 0, divisor});
    for (int rank = 0; rank < ranks(); ++rank)
      ASSERT_EQ(std::memcmp(outputs_[rank].data() + shift, to, count * size_of(type)), 0)
          << name(op) << " " << name(type) << " of " << count << ", rank " << rank;
  }

 private:
  size_t bytes_;
  std::mt19937 random_;
  std::vector<std::unique_ptr<Boxes>> boxes_;
  std::vector<std::unique_ptr<uint32_t>> failed_;
  std::vector<std::vector<unsigned char>> inputs_, outputs_;
};

std::vector<std::unique_ptr<emulator::Stream>> streams(emulator::Device& device, int ranks) {
  std::vector<std::unique_ptr<emulator::Stream>> made;
  for (int i = 0; i < ranks; ++i) made.push_back(std::make_unique<emulator::Stream>(device));
  return made;
}

template <DataType kType, class Op>
void check(ReduceOp op, int ranks, uint64_t count, size_t shift = 0) {
  using T = typename ElementOf<kType>::type;
  World world(ranks, count * sizeof(T), 1);
  emulator::Device device(ranks);
  const auto made = streams(device, ranks);
  const int64_t divisor = op == ReduceOp::avg ? ranks : 1;
  for (uint32_t number = 1; number <= 4; ++number)
    for (int rank = 0; rank < ranks; ++rank) {
      OneShot a = world.call(rank, count, number, shift);
      a.divisor = divisor;
      made[rank]->launch(1, 32, one_shot<T, Op>, a);
    }
  for (auto& stream : made) stream->synchronize();
  world.check(op, kType, count, divisor, shift);
}

template <DataType kType>
void check_type(int ranks, uint64_t count) {
  check<kType, Sum>(ReduceOp::sum, ranks, count);
  check<kType, Sum>(ReduceOp::avg, ranks, count);
  check<kType, Prod>(ReduceOp::prod, ranks, count);
  if constexpr (!kIsComplex<typename ElementOf<kType>::type>) {
    check<kType, Min>(ReduceOp::min, ranks, count);
    check<kType, Max>(ReduceOp::max, ranks, count);
  }
}

TEST(Packets, EveryTypeAndOperation) {
  check_type<DataType::int8>(2, 77);
  check_type<DataType::uint16>(3, 77);
  check_type<DataType::int32>(2, 77);
  check_type<DataType::int64>(3, 77);
  check_type<DataType::float16>(2, 77);
  check_type<DataType::bfloat16>(3, 77);
  check_type<DataType::fp8_e4m3>(2, 77);
  check_type<DataType::fp8_e5m2>(3, 77);
  check_type<DataType::float64>(2, 77);
  check_type<DataType::complex64>(2, 77);
  check_type<DataType::complex128>(2, 77);
  check<DataType::boolean, BitXor>(ReduceOp::bxor, 3, 77);
}

TEST(Packets, EveryNumberOfRanksAndOddSizes) {
  for (int ranks = 1; ranks <= 8; ranks += test::kSanitized ? 3 : 1)
    for (uint64_t count : {1, 2, 7, 300})
      check<DataType::float32, Sum>(ReduceOp::sum, ranks, count, ranks % 2);
}

TEST(Packets, APeerThatDoesNotComeIsNamed) {
  World world(3, 64, 1);
  emulator::Device device(3);
  const auto made = streams(device, 2);
  Report reports[2] = {};
  for (int rank = 0; rank < 2; ++rank) {  // rank 2 makes no call
    OneShot a = world.call(rank, 16, 1, 0);
    a.limits = {nullptr, 50'000'000, &reports[rank]};
    made[rank]->launch(1, 32, one_shot<float, Sum>, a);
  }
  for (int rank = 0; rank < 2; ++rank) {
    made[rank]->synchronize();
    EXPECT_EQ(reports[rank].complete, 1u);
    EXPECT_EQ(reports[rank].cause, Cause::timed_out);
    EXPECT_EQ(reports[rank].peer, 2);
  }
}

TEST(Packets, AnAbortEndsTheWait) {
  World world(2, 64, 1);
  emulator::Device device(2);
  emulator::Stream stream(device);
  uint32_t abort = 0;
  Report report{};
  OneShot a = world.call(0, 16, 1, 0);
  a.limits = {&abort, 0, &report};
  stream.launch(1, 32, one_shot<float, Sum>, a);
  __atomic_store_n(&abort, 1u, __ATOMIC_RELEASE);
  stream.synchronize();
  EXPECT_EQ(report.cause, Cause::aborted);
}

}  // namespace
}  // namespace weft::device
