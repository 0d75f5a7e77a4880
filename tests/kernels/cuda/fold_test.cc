// The kernels that fold and copy, in the emulator, against those of the CPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/cuda/kernels.h"
#include "kernels/number.h"
#include "kernels/reduce.h"
#include "tests/emulator/emulator.h"
#include "tests/support/sanitized.h"

namespace weft {
namespace {

using Buffer = std::vector<unsigned char>;

struct Job {
  ReduceOp op;
  DataType type;
  int sources = 2;
  int targets = 1;
  size_t count = 0;
  size_t shift = 0;   // bytes that all operands are off alignment
  size_t spread = 0;  // and operand k by k times this more
  uint64_t scaled = 0;
  int64_t divisor = 1;
  int blocks = 1;
};

std::string describe(const Job& job) {
  return std::string(name(job.op)) + " " + std::string(name(job.type)) + " of " +
         std::to_string(job.sources) + ", " + std::to_string(job.count) + " elements, shift " +
         std::to_string(job.shift) + "+" + std::to_string(job.spread) + ", scaled " +
         std::to_string(job.scaled) + ", divisor " + std::to_string(job.divisor);
}

// Memory that begins `off` bytes after a multiple of 64, with guards around it.
class Memory {
 public:
  Memory(size_t bytes, size_t off) : bytes_(bytes), storage_(bytes + off + 128, kGuard) {
    const auto address = reinterpret_cast<uintptr_t>(storage_.data());
    data_ = storage_.data() + (-address % 64) + off;
  }
  unsigned char* data() { return data_; }
  void expect_guards() const {
    const size_t begin = data_ - storage_.data();
    for (size_t i = 0; i < storage_.size(); ++i)
      ASSERT_TRUE(storage_[i] == kGuard || (i >= begin && i < begin + bytes_)) << i << " written";
  }

 private:
  static constexpr unsigned char kGuard = 0xa5;
  size_t bytes_;
  Buffer storage_;
  unsigned char* data_;
};

// Random bits make enough NaNs, infinities and subnormals in the narrow formats; wide ones get some
// ordinary numbers, or nearly every sum would be NaN or lost.
void fill(DataType type, std::mt19937& random, unsigned char* to, size_t count) {
  for (size_t i = 0; i < count * size_of(type); ++i)
    to[i] = static_cast<unsigned char>(random()) & (type == DataType::boolean ? 1 : 255);
  const auto put = [&](auto number) {
    for (size_t at = 0; at < count * size_of(type); at += sizeof(number))
      if (random() % 4 != 0) {
        number = static_cast<decltype(number)>(int(random() % 4001) - 2000) / 64;
        std::memcpy(to + at, &number, sizeof(number));
      }
  };
  if (type == DataType::float32 || type == DataType::complex64) put(float{});
  if (type == DataType::float64 || type == DataType::complex128) put(double{});
}

void check(emulator::Stream& stream, const Job& job) {
  SCOPED_TRACE(describe(job));
  const size_t size = size_of(job.type), bytes = job.count * size;
  std::mt19937 random(static_cast<unsigned>(job.count * 31 + job.shift * 7 + job.sources));
  std::vector<Memory> sources, targets;
  device::Operands operands{};
  for (int k = 0; k < job.sources; ++k) {
    sources.emplace_back(bytes, job.shift + k * job.spread);
    fill(job.type, random, sources.back().data(), job.count);
  }
  Memory scalar(size, 0);
  fill(job.type, random, scalar.data(), 1);
  std::vector<const void*> from;
  for (Memory& source : sources) from.push_back(source.data());
  Buffer want(bytes + 1);
  void* const to = want.data();
  reduce_kernel(job.op, job.type, Isa::portable)(
      {from.data(), job.sources, &to, 1, job.count, scalar.data(), job.scaled, job.divisor});

  std::copy(from.begin(), from.end(), operands.sources);
  operands.source_count = job.sources;
  for (int t = 0; t < job.targets; ++t) {
    targets.emplace_back(bytes, job.shift + t * job.spread);
    operands.targets[t] = targets.back().data();
  }
  operands.target_count = job.targets;
  operands.count = device::counts_bytes(job.op) ? bytes : job.count;
  operands.scalar = job.scaled != 0 ? scalar.data() : nullptr;
  operands.scaled[0] = job.scaled;
  operands.divisor = job.divisor;
  operands.streaming = job.count % 2 != 0;
  stream.launch(job.blocks, 32, device::step_kernel(job.op, job.type), operands, device::Tail{},
                device::Limits{});
  stream.synchronize();
  for (Memory& target : targets) {
    ASSERT_EQ(std::memcmp(target.data(), want.data(), bytes), 0);
    target.expect_guards();
  }
}

constexpr DataType kTypes[] = {DataType::int8,       DataType::uint8,    DataType::int16,
                               DataType::uint16,     DataType::int32,    DataType::uint32,
                               DataType::int64,      DataType::uint64,   DataType::float16,
                               DataType::bfloat16,   DataType::float32,  DataType::float64,
                               DataType::fp8_e4m3,   DataType::fp8_e5m2, DataType::complex64,
                               DataType::complex128, DataType::boolean};
constexpr ReduceOp kOps[] = {ReduceOp::sum,  ReduceOp::prod, ReduceOp::min,
                             ReduceOp::max,  ReduceOp::avg,  ReduceOp::premulsum,
                             ReduceOp::band, ReduceOp::bor,  ReduceOp::bxor};

template <class Function>
void for_all(Function function) {
  for (DataType type : kTypes)
    for (ReduceOp op : kOps)
      if (defined(op, type)) function(op, type);
}

TEST(DeviceFold, EveryTypeAndOperation) {
  emulator::Device device(2);
  emulator::Stream stream(device);
  for_all([&](ReduceOp op, DataType type) {
    Job job{op, type};
    for (int sources : {2, 3, 7}) {
      if (test::kSanitized && sources == 7) break;
      job.sources = sources;
      job.count = 2048 / size_of(type) * sources + 3;
      job.targets = sources % 3 + 1;
      job.divisor = op == ReduceOp::avg ? sources * 60 : 1;
      job.scaled = op == ReduceOp::premulsum ? 0x55 % (1u << sources) : 0;
      check(stream, job);
    }
  });
}

TEST(DeviceFold, AnyAlignmentAndSize) {
  emulator::Device device(2);
  emulator::Stream stream(device);
  for (DataType type : kTypes) {
    const ReduceOp op = type == DataType::boolean ? ReduceOp::bor : ReduceOp::sum;
    if (test::kSanitized && size_of(type) == 2) continue;  // 4 and 1 have all of their paths
    for (size_t count : {size_t{0}, size_t{5}, 640 / size_of(type) + 1})
      for (size_t shift : {0, 1, 4, 8})
        for (size_t spread : {0, 1, 4, 8}) check(stream, {op, type, 2, 2, count, shift, spread});
  }
}

TEST(DeviceFold, OneOperandIsCopiedBitByBit) {
  emulator::Device device(2);
  emulator::Stream stream(device);
  for (DataType type : {DataType::float16, DataType::float32, DataType::fp8_e5m2})
    for (size_t count : {0, 1, 15, 3000})
      for (size_t shift : {0, 1, 2, 8})
        for (size_t spread : {0, 1, 2, 4, 8})
          check(stream, {ReduceOp::sum, type, 1, 3, count, shift, spread});
  for (DataType type : {DataType::float16, DataType::int8})
    check(stream, {ReduceOp::avg, type, 1, 1, 300, 0, 0, 1, 4});
}

TEST(DeviceFold, ManySources) {
  emulator::Device device(2);
  emulator::Stream stream(device);
  for (DataType type : {DataType::bfloat16, DataType::float64})
    check(stream, {ReduceOp::premulsum, type, 64, 1, 333, 0, 0, ~uint64_t{0}, 64});
}

TEST(DeviceFold, BlocksShareTheElements) {
  emulator::Device device(3);
  emulator::Stream stream(device);
  for (size_t count : {1, 1024, 1025, 5000})
    check(stream, {ReduceOp::sum, DataType::int16, 2, 2, count, 2, 0, 0, 1, 5});
}

// Every value of a narrow format against a few of another, and all pairs of the 8-bit ones.
TEST(DeviceFold, EveryValueOfNarrowFormats) {
  emulator::Device device(2);
  emulator::Stream stream(device);
  for (DataType type : {DataType::float16, DataType::bfloat16, DataType::fp8_e4m3,
                        DataType::fp8_e5m2, DataType::int8, DataType::uint8}) {
    for (ReduceOp op : {ReduceOp::sum, ReduceOp::prod, ReduceOp::min, ReduceOp::max}) {
      constexpr size_t kCount = test::kSanitized ? 1 << 12 : 1 << 16;
      const size_t size = size_of(type);
      Memory first(kCount * size, 0), second(kCount * size, 0), got(kCount * size, 0);
      for (size_t i = 0; i < kCount; ++i) {
        const uint16_t a = static_cast<uint16_t>(i);
        const uint16_t b = static_cast<uint16_t>(size == 1 ? i >> 8 : i * 40503 + 7);
        std::memcpy(first.data() + i * size, &a, size);
        std::memcpy(second.data() + i * size, &b, size);
      }
      Buffer want(kCount * size);
      const void* from[] = {first.data(), second.data()};
      void* const to = want.data();
      reduce_kernel(op, type, Isa::portable)({from, 2, &to, 1, kCount});
      device::Operands operands{};
      operands.sources[0] = from[0];
      operands.sources[1] = from[1];
      operands.targets[0] = got.data();
      operands.source_count = 2;
      operands.target_count = 1;
      operands.count = kCount;
      operands.divisor = 1;
      stream.launch(2, 32, device::step_kernel(op, type), operands, device::Tail{},
                    device::Limits{});
      stream.synchronize();
      EXPECT_EQ(std::memcmp(got.data(), want.data(), want.size()), 0)
          << name(op) << " " << name(type);
    }
  }
}

TEST(DeviceFold, UndefinedOperationsHaveNoKernel) {
  EXPECT_EQ(device::step_kernel(ReduceOp::band, DataType::float32), nullptr);
  EXPECT_EQ(device::step_kernel(ReduceOp::min, DataType::complex64), nullptr);
  EXPECT_EQ(device::step_kernel(ReduceOp::sum, DataType::boolean), nullptr);
}

}  // namespace
}  // namespace weft
