#include "kernels/reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>

#include "tests/kernels/oracle.h"
#include "tests/support/sanitized.h"

namespace weft {
namespace {

using Buffer = std::vector<unsigned char>;

std::vector<Isa> isas() {
  std::vector<Isa> found;
  for (Isa isa : {Isa::portable, Isa::avx2, Isa::avx512, Isa::neon})
    if (available(isa)) found.push_back(isa);
  return found;
}

bool is_small_float(DataType type) {
  return type == DataType::float16 || type == DataType::bfloat16 || type == DataType::fp8_e4m3 ||
         type == DataType::fp8_e5m2;
}

// One number of a float type (half an element, where complex).
void write_float(DataType type, double value, unsigned char* to) {
  const float single = static_cast<float>(value);
  if (type == DataType::float64 || type == DataType::complex128) {
    std::memcpy(to, &value, sizeof(value));
  } else if (is_small_float(type)) {
    const uint32_t bits = oracle::encode(oracle::format_of(type), value);
    std::memcpy(to, &bits, size_of(type));
  } else {
    std::memcpy(to, &single, sizeof(single));
  }
}

double special(DataType type, uint32_t choice) {
  const bool wide = type == DataType::float64 || type == DataType::complex128;
  const double tiny = wide ? std::numeric_limits<double>::denorm_min()
                           : double(std::numeric_limits<float>::denorm_min());
  const double huge =
      wide ? std::numeric_limits<double>::max() : double(std::numeric_limits<float>::max());
  const double values[] = {0.0,  -0.0,  HUGE_VAL, -HUGE_VAL, std::nan(""), -std::nan(""),
                           tiny, -tiny, huge,     -huge,     1.0,          -1.0};
  return values[choice % std::size(values)];
}

// Random operands. An element is of one kind in all sources, so that most sums of 64 are finite:
// seven in ten ordinary, the others arbitrary bits (small floats' subnormals among them) or special
// values.
Buffer operand(DataType type, size_t count, int kinds_seed, int seed) {
  std::mt19937 kinds(kinds_seed), random(seed);
  Buffer bytes(count * size_of(type));
  for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random());
  if (type == DataType::boolean)
    for (unsigned char& byte : bytes) byte &= 1;
  if (is_integer(type) || type == DataType::boolean) return bytes;
  const size_t part = is_complex(type) ? size_of(type) / 2 : size_of(type);
  for (size_t at = 0; at < bytes.size(); at += part) {
    const uint32_t kind = kinds() % 10;
    const double ordinary = std::ldexp(int(random() % 4001) - 2000, int(random() % 12) - 12);
    const double chosen = special(type, random());
    if (kind < 7)
      write_float(type, ordinary, &bytes[at]);
    else if (kind < 8)
      write_float(type, chosen, &bytes[at]);
  }
  return bytes;
}

struct Job {
  ReduceOp op;
  DataType type;
  int source_count;
  uint64_t scaled = 0;
  int64_t divisor = 1;
  double scalar = 0.3;  // where the type is a float
};

std::string describe(const Job& job, Isa isa) {
  return std::string(name(job.op)) + " " + std::string(name(job.type)) + " " +
         std::string(name(isa)) + " sources " + std::to_string(job.source_count) + " scaled " +
         std::to_string(job.scaled) + " divisor " + std::to_string(job.divisor);
}

// The operands of one job, and what the whole of it must give.
class Bench {
 public:
  Bench(const Job& job, size_t count, int seed) : job_(job), size_(size_of(job.type)) {
    for (int k = 0; k < job.source_count; ++k)
      sources_.push_back(operand(job.type, count, seed, seed * 100 + k));
    scalar_.resize(size_);
    Buffer ones = operand(job.type, 1, seed, seed + 7);
    scalar_ = ones;
    if (!is_integer(job.type) && job.type != DataType::boolean)
      for (size_t part = 0; part < (is_complex(job.type) ? 2u : 1u); ++part)
        write_float(job.type, part == 0 ? job.scalar : job.scalar + 1, &scalar_[part * size_ / 2]);
    oracle::Call call{job.op, job.type, {}, count, scalar_.data(), job.scaled, job.divisor};
    for (const Buffer& source : sources_) call.sources.push_back(source.data());
    want_ = oracle::reduce(call);
  }

  // Runs elements [begin, begin + count) with every operand `shift` + k bytes off alignment, and
  // compares the targets and the bytes around them. `alias`: the source that the first target is,
  // or -1.
  void check(Isa isa, size_t begin, size_t count, size_t shift, int target_count, bool streaming,
             int alias = -1) {
    const size_t bytes = count * size_;
    std::vector<Buffer> placed(sources_.size());
    std::vector<const void*> sources(sources_.size());
    for (size_t k = 0; k < sources_.size(); ++k) {
      const size_t offset = shift == 0 ? kGuard : kGuard + shift + k % 5;
      placed[k].assign(offset + bytes + kGuard, kCanary);
      std::copy_n(sources_[k].data() + begin * size_, bytes, placed[k].data() + offset);
      sources[k] = placed[k].data() + offset;
    }
    ++checks_;
    const size_t apart = checks_ % 2;  // of the targets' alignments
    Buffer out[2];
    void* targets[2];
    for (size_t t = 0; t < 2; ++t) {
      out[t].assign(2 * kGuard + shift + t + bytes + kGuard, kCanary);
      const size_t to_line = -reinterpret_cast<uintptr_t>(out[t].data()) % kGuard;
      targets[t] = out[t].data() + to_line + kGuard + shift + t * apart;
    }
    if (alias >= 0) targets[0] = const_cast<void*>(sources[alias]);

    ReduceCall call;
    call.sources = sources.data();
    call.source_count = static_cast<int>(sources.size());
    call.targets = targets;
    call.target_count = target_count;
    call.count = count;
    call.scalar = scalar_.data();
    call.scaled = job_.scaled;
    call.divisor = job_.divisor;
    call.streamed = streaming ? 1 + checks_ % 3 : 0;
    call.shared = checks_ % 4;
    reduce_kernel(job_.op, job_.type, isa)(call);

    for (int t = 0; t < target_count; ++t)
      expect_bytes(static_cast<unsigned char*>(targets[t]), begin, bytes, isa, t);
    for (int t = 0; t < 2; ++t)
      expect_untouched(out[t], static_cast<unsigned char*>(targets[t]), bytes, isa);
    if (alias >= 0)
      expect_untouched(placed[alias], static_cast<unsigned char*>(targets[0]), bytes, isa);
  }

 private:
  static constexpr size_t kGuard = 64;
  static constexpr unsigned char kCanary = 0xa5;

  void expect_bytes(const unsigned char* got, size_t begin, size_t bytes, Isa isa, int target) {
    const unsigned char* want = want_.data() + begin * size_;
    const auto [a, b] = std::mismatch(got, got + bytes, want);
    if (a == got + bytes) return;
    const size_t index = static_cast<size_t>(a - got) / size_;
    std::string text;
    for (size_t i = 0; i < size_; ++i) {
      char pair[16];
      std::snprintf(pair, sizeof(pair), " %02x/%02x", got[index * size_ + i],
                    want[index * size_ + i]);
      text += pair;
    }
    FAIL() << describe(job_, isa) << ": element " << index << " of " << bytes / size_ << ", target "
           << target << ", bytes got/wanted" << text;
  }

  void expect_untouched(const Buffer& memory, const unsigned char* used, size_t bytes, Isa isa) {
    for (const unsigned char& byte : memory) {
      const bool inside = &byte >= used && &byte < used + bytes;
      if (inside || byte == kCanary) continue;
      const bool mine = used >= memory.data() && used <= memory.data() + memory.size();
      ASSERT_FALSE(mine) << describe(job_, isa) << ": wrote at " << &byte - used << " of " << bytes;
    }
  }

  Job job_;
  size_t size_;
  std::vector<Buffer> sources_;
  Buffer scalar_;
  Buffer want_;
  int checks_ = 0;
};

std::vector<Job> jobs(DataType type, int source_count) {
  std::vector<Job> all;
  const uint64_t every = ~uint64_t{0} >> (64 - source_count);
  for (int i = 0; i < kReduceOps; ++i) {
    const ReduceOp op = static_cast<ReduceOp>(i);
    if (!defined(op, type)) continue;
    const Job plain{op, type, source_count};
    if (op == ReduceOp::avg) {
      for (int64_t divisor : {2, 3, 200, 100'003})
        all.push_back({op, type, source_count, 0, divisor});
    } else if (op == ReduceOp::premulsum) {
      for (uint64_t bits :
           {every, every & 0x5555'5555'5555'5555, uint64_t{1} << (source_count - 1)})
        all.push_back({op, type, source_count, bits, 1});
      all.push_back({op, type, source_count, every, 3});
      for (const double scalar : {-0.0, 1e-7, -2.5, double(INFINITY), double(NAN)})
        all.push_back({op, type, source_count, every, 1, scalar});
    } else {
      all.push_back(plain);
    }
  }
  return all;
}

class ReduceTest : public testing::TestWithParam<std::tuple<int, int>> {
 protected:
  DataType type() const { return static_cast<DataType>(std::get<0>(GetParam())); }
  int source_count() const { return std::get<1>(GetParam()); }
};

// Element counts around one vector and one unrolled block of each instruction set, and one of which
// lines are claimed.
std::vector<size_t> counts(DataType type) {
  const size_t line = 64 / size_of(type);
  std::vector<size_t> all{0, 1, 2, 3, 5};
  for (size_t n : {line / 4, line / 2, line, 2 * line, 4 * line})
    for (size_t count : {n - 1, n, n + 1})
      if (n > 0) all.push_back(count);
  for (size_t lines : {9, 17}) all.push_back(lines * line + 3);
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

TEST_P(ReduceTest, EveryOperationIsTheOracleBitByBit) {
  const size_t most = 18 * 64 / size_of(type()) + 8;
  for (const Job& job : jobs(type(), source_count())) {
    Bench bench(job, most, 1 + std::get<0>(GetParam()) * 10 + static_cast<int>(job.op));
    for (Isa isa : isas()) {
      size_t turn = 0;
      for (size_t count : counts(type())) {
        const size_t begin = turn % (most - count);
        const size_t shift = turn % 3 == 0 ? 0 : turn * 7 % 64;
        const int alias = turn % 4 == 3 ? static_cast<int>(turn) % job.source_count : -1;
        bench.check(isa, begin, count, shift, 1 + turn % 2, turn / 2 % 2 == 1, alias);
        ++turn;
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(ReduceTest, EveryWayToPlaceTheOperands) {
  const ReduceOp op = type() == DataType::boolean ? ReduceOp::bxor : ReduceOp::sum;
  const size_t line = 64 / size_of(type());
  Bench bench({op, type(), source_count()}, 21 * line, 3);
  for (Isa isa : isas())
    for (size_t count : {size_t{1}, line, 5 * line + 1, 20 * line - 1})
      for (size_t shift : {size_t{0}, size_t{1}, size_t{8}, size_t{17}, size_t{60}})
        for (int target_count : {1, 2})
          for (bool streaming : {false, true})
            for (int alias : {-1, 0, source_count() - 1}) {
              bench.check(isa, 1 % line, count - count / 6, shift, target_count, streaming, alias);
              if (HasFatalFailure()) return;
            }
}

INSTANTIATE_TEST_SUITE_P(All, ReduceTest,
                         testing::Combine(testing::Range(0, kDataTypes),
                                          testing::Values(1, 2, 3, 4, 5, 8, 64)),
                         [](const auto& parameters) {
                           return std::string(
                                      name(static_cast<DataType>(std::get<0>(parameters.param)))) +
                                  "_" + std::to_string(std::get<1>(parameters.param));
                         });

// Kernels for bytes that are given, against the oracle.
void check_all(ReduceOp op, DataType type, const std::vector<Buffer>& operands,
               int64_t divisor = 1) {
  const size_t count = operands[0].size() / size_of(type);
  oracle::Call expected{op, type, {}, count, nullptr, 0, divisor};
  for (const Buffer& operand : operands) expected.sources.push_back(operand.data());
  const Buffer want = oracle::reduce(expected);
  const std::vector<const void*> sources(expected.sources.begin(), expected.sources.end());
  for (Isa isa : isas()) {
    Buffer got(operands[0].size());
    void* targets[] = {got.data()};
    ReduceCall call;
    call.sources = sources.data();
    call.source_count = static_cast<int>(sources.size());
    call.targets = targets;
    call.target_count = 1;
    call.count = count;
    call.divisor = divisor;
    reduce_kernel(op, type, isa)(call);
    const auto [x, y] = std::mismatch(got.begin(), got.end(), want.begin());
    ASSERT_EQ(x, got.end()) << name(op) << " " << name(type) << " " << name(isa) << ": byte "
                            << x - got.begin() << " is " << int(*x) << ", not " << int(*y);
  }
}

void check_pairs(ReduceOp op, DataType type, const Buffer& a, const Buffer& b,
                 int64_t divisor = 1) {
  check_all(op, type, {a, b}, divisor);
}

constexpr ReduceOp kFloatOps[] = {ReduceOp::sum, ReduceOp::prod, ReduceOp::min, ReduceOp::max};

// Every pair of bytes, as two operands.
std::vector<Buffer> pairs_of_bytes() {
  std::vector<Buffer> pairs(2, Buffer(65'536));
  for (size_t i = 0; i < 65'536; ++i) {
    pairs[0][i] = static_cast<unsigned char>(i);
    pairs[1][i] = static_cast<unsigned char>(i >> 8);
  }
  return pairs;
}

TEST(KernelTest, EveryPairOfFp8Values) {
  for (DataType type : {DataType::fp8_e4m3, DataType::fp8_e5m2}) {
    for (ReduceOp op : kFloatOps) check_all(op, type, pairs_of_bytes());
    for (int64_t divisor : {2, 3, 7, 1000})
      check_all(ReduceOp::avg, type, pairs_of_bytes(), divisor);
  }
}

// A third operand that moves sums off the middle between two values by as little as there is.
TEST(KernelTest, EveryPairOfFp8ValuesAndASmallOne) {
  for (DataType type : {DataType::fp8_e4m3, DataType::fp8_e5m2})
    for (unsigned char third : {0x01, 0x81, 0x03, 0x0b, 0x93}) {
      if (test::kSanitized && third != 0x0b) continue;
      std::vector<Buffer> operands = pairs_of_bytes();
      operands.emplace_back(65'536, third);
      for (ReduceOp op : kFloatOps) check_all(op, type, operands);
      operands.emplace_back(65'536, 0);  // and sums of four and five
      check_all(ReduceOp::sum, type, operands);
      operands.emplace_back(65'536, 0x80);
      check_all(ReduceOp::sum, type, operands);
    }
}

TEST(KernelTest, Every16BitFloatWithZeroAndWithAnother) {
  Buffer all(2 * 65'536), zeros(2 * 65'536), others(2 * 65'536);
  std::mt19937 random(11);
  for (size_t i = 0; i < 65'536; ++i) {
    const uint16_t bits = static_cast<uint16_t>(i), minus_zero = 0x8000;
    const uint16_t other = static_cast<uint16_t>(random());
    std::memcpy(&all[2 * i], &bits, 2);
    std::memcpy(&zeros[2 * i], &minus_zero, 2);
    std::memcpy(&others[2 * i], &other, 2);
  }
  for (DataType type : {DataType::float16, DataType::bfloat16})
    for (ReduceOp op : kFloatOps) {
      check_pairs(op, type, all, zeros);
      check_pairs(op, type, all, others);
    }
}

// Any bits at all as operands: special values meet each other.
TEST(KernelTest, SpecialValuesOfWideFloats) {
  for (DataType type :
       {DataType::float32, DataType::float64, DataType::complex64, DataType::complex128}) {
    const size_t part = is_complex(type) ? size_of(type) / 2 : size_of(type);
    Buffer a(144 * 2 * part), b(144 * 2 * part);
    for (uint32_t i = 0; i < 288; ++i) {
      write_float(type, special(type, i % 12), &a[i * part]);
      write_float(type, special(type, i / 12), &b[i * part]);
    }
    for (ReduceOp op : kFloatOps)
      if (defined(op, type)) check_pairs(op, type, a, b);
  }
}

// Next to multiples of the divisor is where a quotient could come out one too large or too small.
template <class T>
void check_division(DataType type, int64_t divisor) {
  std::vector<T> values;
  const auto add_around = [&](T value) {
    for (int delta : {-1, 0, 1})
      values.push_back(static_cast<T>(static_cast<uint64_t>(value) + delta));
  };
  for (int64_t i = -600; i < 600; ++i) add_around(static_cast<T>(uint64_t(i) * uint64_t(divisor)));
  const T most = std::numeric_limits<T>::max(), least = std::numeric_limits<T>::min();
  for (T step = 0; step < 60; ++step) {
    add_around(static_cast<T>(most / divisor * divisor - step * divisor));
    add_around(static_cast<T>(least / divisor * divisor + step * divisor));
    add_around(static_cast<T>(most - step));
    add_around(static_cast<T>(least + step));
  }
  const std::vector<T> zeros(values.size());
  const auto bytes = [](const std::vector<T>& from) {
    const auto* data = reinterpret_cast<const unsigned char*>(from.data());
    return Buffer(data, data + from.size() * sizeof(T));
  };
  check_pairs(ReduceOp::avg, type, bytes(values), bytes(zeros), divisor);
}

TEST(KernelTest, IntegersDivideTowardZeroExactly) {
  for (int64_t divisor : {2, 3, 5, 7, 10, 127, 128, 255, 256, 257, 65'535, 65'537, 1'000'003}) {
    check_division<int8_t>(DataType::int8, divisor);
    check_division<uint8_t>(DataType::uint8, divisor);
    check_division<int16_t>(DataType::int16, divisor);
    check_division<uint16_t>(DataType::uint16, divisor);
    check_division<int32_t>(DataType::int32, divisor);
    check_division<uint32_t>(DataType::uint32, divisor);
    check_division<int64_t>(DataType::int64, divisor);
    check_division<uint64_t>(DataType::uint64, divisor);
  }
}

TEST(KernelTest, IntegersAreDividedByAnyNumber) {
  std::mt19937_64 random(5);
  std::vector<int64_t> divisors{(1LL << 31) - 1, 1LL << 31, (1LL << 32) - 1, (1LL << 32) + 1,
                                1LL << 62,       INT64_MAX, INT64_MAX - 1};
  for (int bits = 2; bits < 64; bits += 3)
    divisors.push_back(2 + static_cast<int64_t>(random() >> (64 - bits)));
  for (DataType type : {DataType::int8, DataType::uint8, DataType::int16, DataType::uint16,
                        DataType::int32, DataType::uint32, DataType::int64, DataType::uint64}) {
    Buffer values(1 << 12);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<unsigned char>(i < 16 ? 255 : i < 32 ? 0 : random());
    for (size_t i = 32; i < 40; ++i) values[i] = i == 39 ? 0x80 : 0;  // the least int64
    for (int64_t divisor : divisors)
      check_pairs(ReduceOp::avg, type, values, Buffer(values.size()), divisor);
  }
}

TEST(KernelTest, KernelsExistExactlyWhereTheOperationIsDefined) {
  for (int t = 0; t < kDataTypes; ++t) {
    for (int o = 0; o < kReduceOps; ++o) {
      const DataType type = static_cast<DataType>(t);
      const ReduceOp op = static_cast<ReduceOp>(o);
      EXPECT_EQ(reduce_kernel(op, type) != nullptr, defined(op, type)) << name(op) << name(type);
      for (Isa isa : isas())
        EXPECT_EQ(reduce_kernel(op, type, isa) != nullptr, defined(op, type))
            << name(op) << name(type) << name(isa);
    }
  }
}

TEST(KernelTest, UnavailableInstructionSetsHaveNoKernels) {
  EXPECT_TRUE(available(Isa::portable));
  for (Isa isa : {Isa::avx2, Isa::avx512, Isa::neon})
    EXPECT_EQ(reduce_kernel(ReduceOp::sum, DataType::float32, isa) != nullptr, available(isa))
        << name(isa);
}

}  // namespace
}  // namespace weft
