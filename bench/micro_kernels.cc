// Bandwidth of the reduction and copy kernels, by instruction set, element type, operation and
// operands. bytes_per_second counts what is read and written. Filter, for example:
//   weft-micro --benchmark_filter='avx2/float16/sum/2/'
// With --ratios it prints a table instead: the bandwidth of every type and operation on two
// sources, relative to a float32 sum of the same bytes in the same moment, which a busy machine
// spoils less.
//   weft-micro --ratios [portable|avx2|avx512|neon] [TYPE]
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "kernels/copy.h"
#include "kernels/reduce.h"

namespace weft {
namespace {

struct Case {
  Isa isa;
  DataType type;
  ReduceOp op;
  int sources;
  size_t bytes;  // of one operand
  bool streaming = false;
};

// Buffers on lines of their own, apart by an odd number of lines: neither alignment nor pages that
// collide in the cache decide between the cases.
class Memory {
 public:
  Memory(size_t bytes, int count) : pitch_(bytes + 5 * kLine), storage_(pitch_ * count + kLine) {}
  unsigned char* at(int index) {
    const size_t skew = -reinterpret_cast<uintptr_t>(storage_.data()) % kLine;
    return storage_.data() + skew + index * pitch_;
  }

 private:
  static constexpr size_t kLine = 64;
  size_t pitch_;
  std::vector<unsigned char> storage_;
};

// Bytes whose values are small in every format, so that no NaN or subnormal slows the arithmetic.
void fill(const Case& test, int seed, unsigned char* to) {
  std::mt19937 random(seed);
  const size_t part = is_complex(test.type) ? size_of(test.type) / 2 : size_of(test.type);
  const bool fp8 = test.type == DataType::fp8_e4m3 || test.type == DataType::fp8_e5m2;
  for (size_t i = 0; i < test.bytes; ++i) {
    const bool top = i % part == part - 1;
    to[i] = static_cast<unsigned char>(top ? (fp8 ? 0x30 + random() % 16 : 0x3d) : random());
  }
}

// The operands of a case, ready to be reduced.
class Work {
 public:
  explicit Work(const Case& test)
      : memory_(test.bytes, test.sources + 1),
        kernel_(reduce_kernel(test.op, test.type, test.isa)) {
    for (int k = 0; k < test.sources; ++k) {
      fill(test, k, memory_.at(k));
      sources_.push_back(memory_.at(k));
    }
    target_ = memory_.at(test.sources);
    call_.sources = sources_.data();
    call_.source_count = test.sources;
    call_.targets = &target_;
    call_.target_count = 1;
    call_.count = test.bytes / size_of(test.type);
    call_.streamed = test.streaming ? 1 : 0;
    call_.scalar = kScalar;
    if (test.op == ReduceOp::premulsum) call_.scaled = 1;
    if (test.op == ReduceOp::avg) call_.divisor = 3;
  }
  Work(const Work&) = delete;
  void run() const {
    kernel_(call_);
    benchmark::ClobberMemory();
  }

 private:
  static constexpr unsigned char kScalar[16] = {0, 0, 0, 0x3d};
  Memory memory_;
  ReduceKernel kernel_;
  std::vector<const void*> sources_;
  void* target_;
  ReduceCall call_;
};

void reduce(benchmark::State& state, const Case& test) {
  const Work work(test);
  for (auto _ : state) work.run();
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * test.bytes) *
                          (test.sources + 1));
}

void copy(benchmark::State& state, size_t bytes, CopyWay way) {
  Memory memory(bytes, 2);
  std::memset(memory.at(0), 1, bytes);
  for (auto _ : state) {
    copy_bytes(memory.at(1), memory.at(0), bytes, way);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<int64_t>(2 * state.iterations() * bytes));
}

std::string text_of(size_t bytes) {
  return bytes < (1 << 20) ? std::to_string(bytes >> 10) + "K" : std::to_string(bytes >> 20) + "M";
}

void add(const Case& test) {
  const std::string title = std::string(name(test.isa)) + "/" + std::string(name(test.type)) + "/" +
                            std::string(name(test.op)) + "/" + std::to_string(test.sources) + "/" +
                            text_of(test.bytes) + (test.streaming ? "/stream" : "");
  benchmark::RegisterBenchmark(title.c_str(),
                               [test](benchmark::State& state) { reduce(state, test); });
}

constexpr size_t kSmall = 8 << 10, kMiddle = 256 << 10, kLarge = 32 << 20;

void add_type(Isa isa, DataType type) {
  for (int o = 0; o < kReduceOps; ++o) {
    const ReduceOp op = static_cast<ReduceOp>(o);
    if (!defined(op, type)) continue;
    for (size_t bytes : {kSmall, kMiddle, kLarge}) add({isa, type, op, 2, bytes});
    if (op != ReduceOp::sum) continue;
    for (int sources : {3, 4, 8}) add({isa, type, op, sources, kMiddle});
    add({isa, type, op, 2, kLarge, true});
  }
}

void add_all() {
  for (Isa isa : {Isa::portable, Isa::avx2, Isa::avx512, Isa::neon}) {
    if (!available(isa)) continue;
    for (int t = 0; t < kDataTypes; ++t) add_type(isa, static_cast<DataType>(t));
  }
  for (size_t bytes : {kSmall, kMiddle, kLarge})
    for (const auto& [way, title] :
         {std::pair(CopyWay::own, "/own"), std::pair(CopyWay::shared, ""),
          std::pair(CopyWay::taken, "/taken"), std::pair(CopyWay::streamed, "/stream")})
      benchmark::RegisterBenchmark(
          ("copy/" + text_of(bytes) + title).c_str(),
          [bytes, way = way](benchmark::State& state) { copy(state, bytes, way); });
}

double seconds(const Work& work, int times) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < times; ++i) work.run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The median over pairs of runs, one right after the other, of float32 sum's time over the case's.
double ratio_to_float32(const Case& test) {
  constexpr int kPairs = 31;
  const Work plain({test.isa, DataType::float32, ReduceOp::sum, test.sources, test.bytes});
  const Work work(test);
  const int times = static_cast<int>(std::max<size_t>(1, (2 << 20) / test.bytes));
  seconds(plain, times), seconds(work, times);
  std::vector<double> ratios;
  for (int i = 0; i < kPairs; ++i) {
    const double base = seconds(plain, times);
    ratios.push_back(base / seconds(work, times));
  }
  std::nth_element(ratios.begin(), ratios.begin() + kPairs / 2, ratios.end());
  return ratios[kPairs / 2];
}

void print_ratios(Isa isa, std::string_view only) {
  std::printf("%s relative to float32 sum\n%-11s %-10s", std::string(name(isa)).c_str(), "", "");
  for (size_t bytes : {kSmall, kMiddle, kLarge}) std::printf(" %6s", text_of(bytes).c_str());
  for (int t = 0; t < kDataTypes; ++t) {
    const DataType type = static_cast<DataType>(t);
    if (!only.empty() && only != name(type)) continue;
    for (int o = 0; o < kReduceOps; ++o) {
      const ReduceOp op = static_cast<ReduceOp>(o);
      if (!defined(op, type)) continue;
      std::printf("\n%-11s %-10s", std::string(name(type)).c_str(), std::string(name(op)).c_str());
      for (size_t bytes : {kSmall, kMiddle, kLarge}) {
        std::printf(" %6.2f", ratio_to_float32({isa, type, op, 2, bytes}));
        std::fflush(stdout);
      }
    }
  }
  std::printf("\n");
}

// --ratios [ISA] [TYPE], in any order.
int print_ratios_of(std::span<char*> words) {
  constexpr Isa kAll[] = {Isa::portable, Isa::avx2, Isa::avx512, Isa::neon};
  std::vector<Isa> isas;
  std::copy_if(std::begin(kAll), std::end(kAll), std::back_inserter(isas), available);
  std::string accepted;
  for (const Isa isa : isas) accepted.append(name(isa)).append(", ");
  std::string_view type;
  for (const std::string_view word : words) {
    const auto isa = std::find_if(isas.begin(), isas.end(), [&](Isa i) { return name(i) == word; });
    if (isa != isas.end()) {
      isas = {*isa};
    } else if (parse_data_type(word)) {
      type = word;
    } else {
      std::fprintf(stderr, "weft-micro --ratios: \"%s\" is none of %sand no element type.\n",
                   std::string(word).c_str(), accepted.c_str());
      return 2;
    }
  }
  for (const Isa isa : isas) print_ratios(isa, type);
  return 0;
}

int main_of(int argc, char** argv) {
  const std::span<char*> words(argv, static_cast<size_t>(argc));
  if (argc >= 2 && std::string_view(argv[1]) == "--ratios")
    return print_ratios_of(words.subspan(2));
  add_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) { return weft::main_of(argc, argv); }
