// Bandwidth of the reduction and copy kernels, by instruction set, element type, operation and
// operands. bytes_per_second counts what is read and written. Filter, for example:
//   weft-micro --benchmark_filter='avx2/float16/sum/2/'
#include <benchmark/benchmark.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

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

void reduce(benchmark::State& state, const Case& test) {
  Memory memory(test.bytes, test.sources + 1);
  std::vector<const void*> sources;
  for (int k = 0; k < test.sources; ++k) {
    fill(test, k, memory.at(k));
    sources.push_back(memory.at(k));
  }
  void* const targets[] = {memory.at(test.sources)};
  const unsigned char scalar[16] = {0, 0, 0, 0x3d};

  ReduceCall call;
  call.sources = sources.data();
  call.source_count = test.sources;
  call.targets = targets;
  call.target_count = 1;
  call.count = test.bytes / size_of(test.type);
  call.streaming = test.streaming;
  call.scalar = scalar;
  if (test.op == ReduceOp::premulsum) call.scaled = 1;
  if (test.op == ReduceOp::avg) call.divisor = 3;
  const ReduceKernel kernel = reduce_kernel(test.op, test.type, test.isa);
  for (auto _ : state) {
    kernel(call);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * test.bytes) *
                          (test.sources + 1));
}

void copy(benchmark::State& state, size_t bytes, bool streaming) {
  Memory memory(bytes, 2);
  std::memset(memory.at(0), 1, bytes);
  for (auto _ : state) {
    copy_bytes(memory.at(1), memory.at(0), bytes, streaming);
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
    for (bool streaming : {false, true})
      benchmark::RegisterBenchmark(
          ("copy/" + text_of(bytes) + (streaming ? "/stream" : "")).c_str(),
          [bytes, streaming](benchmark::State& state) { copy(state, bytes, streaming); });
}

[[maybe_unused]] const bool added = (add_all(), true);  // as the BENCHMARK macro does

}  // namespace
}  // namespace weft
