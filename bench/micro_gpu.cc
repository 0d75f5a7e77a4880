// Bandwidth of the reduction and copy kernels on a GPU, by themselves, beside the copy that CUDA
// makes within its memory. bytes_per_second counts what is read and written.
//   weft-micro-gpu [BYTES] [--benchmark_...]     of each operand; 1 GiB
// A time is that of several launches one behind the other, by the GPU's clock. For figures that can
// be compared, have the cases interleaved: --benchmark_repetitions=5
// --benchmark_enable_random_interleaving=true
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>

#include "base/parse.h"
#include "base/text.h"
#include "engine/device/cuda.h"
#include "kernels/ops.h"

namespace weft {
namespace {

constexpr int kLaunches = 8;
constexpr uint64_t kBytesPerBlock = 16 << 10;

// The GPU, a stream, and two sources and a target.
struct Bench {
  std::shared_ptr<Gpu> gpu;
  Gpu::Stream stream = nullptr;
  Gpu::Event begin = nullptr, end = nullptr;
  Bytes memory[3];
  size_t bytes = size_t{1} << 30;

  Status prepare() {
    auto found = find_cuda_device("0");
    if (!found.ok()) return found.status();
    gpu = found.take();
    auto made = gpu->make_stream();
    if (!made.ok()) return made.status();
    stream = *made;
    for (Gpu::Event* event : {&begin, &end}) {
      auto timer = gpu->make_timer();
      if (!timer.ok()) return timer.status();
      *event = *timer;
    }
    for (Bytes& part : memory) {
      auto got = gpu->allocate(bytes);
      if (!got.ok()) return got.status();
      part = *got;
    }
    return {};
  }
};

Status reduce(const Bench& bench, DataType type, int sources, uint32_t blocks_most) {
  device::Operands operands{};
  for (int i = 0; i < sources; ++i) operands.sources[i] = bench.memory[i].data();
  operands.targets[0] = bench.memory[2].data();
  operands.source_count = sources;
  operands.target_count = 1;
  operands.count = bench.bytes / size_of(type);
  operands.divisor = 1;
  operands.streaming = true;
  const auto blocks = std::clamp<uint64_t>(bench.bytes / kBytesPerBlock, 1, blocks_most);
  return bench.gpu->launch(ReduceOp::sum, type, operands, device::Tail{}, device::Limits{},
                           static_cast<uint32_t>(blocks), bench.stream);
}

// Of so many launches, in microseconds.
Result<double> time(const Bench& bench, int times, const std::function<Status()>& launch) {
  WEFT_TRY(bench.gpu->record(bench.begin, bench.stream));
  for (int i = 0; i < times; ++i) WEFT_TRY(launch());
  WEFT_TRY(bench.gpu->record(bench.end, bench.stream));
  WEFT_TRY(bench.gpu->synchronize(bench.stream));
  return bench.gpu->elapsed_us(bench.begin, bench.end);
}

void measure(benchmark::State& state, const Bench& bench, int operands,
             const std::function<Status()>& launch) {
  Result<double> took_us = time(bench, 1, launch);  // which warms up
  for (auto _ : state) {
    if (took_us.ok()) took_us = time(bench, kLaunches, launch);
    if (!took_us.ok()) return state.SkipWithError(std::string(took_us.status().message()).c_str());
    state.SetIterationTime(*took_us * 1e-6 / kLaunches);
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) *
                          static_cast<int64_t>(bench.bytes) * operands);
}

void add(const std::string& name, std::function<void(benchmark::State&)> run) {
  benchmark::RegisterBenchmark(name.c_str(), std::move(run))
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond)
      ->Iterations(3);
}

Status add_all(const Bench& bench) {
  add("copy", [&bench](benchmark::State& state) {
    measure(state, bench, 2, [&bench] {
      return bench.gpu->copy(bench.memory[2].data(), bench.memory[0].data(), bench.bytes,
                             bench.stream);
    });
  });
  const auto add_kernel = [&bench](const std::string& name, DataType type, int sources,
                                   uint32_t blocks) {
    add(name, [=, &bench](benchmark::State& state) {
      measure(state, bench, sources + 1,
              [=, &bench] { return reduce(bench, type, sources, blocks); });
    });
  };
  for (int i = 0; i < kDataTypes; ++i) {
    const auto type = static_cast<DataType>(i);
    if (!defined(ReduceOp::sum, type)) continue;
    const auto blocks = bench.gpu->prepare(ReduceOp::sum, type);
    if (!blocks.ok()) return blocks.status();
    if (type == DataType::uint8) add_kernel("copy_kernel", type, 1, *blocks);
    add_kernel(concat("reduce/", name(type)), type, 2, *blocks);
  }
  return {};
}

int run(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  Bench bench;
  if (argc > 1) {
    const auto bytes = parse_int(argv[1], 64, int64_t{1} << 40);
    if (argc > 2 || !bytes.ok()) {
      std::fprintf(stderr, "usage: weft-micro-gpu [BYTES] [--benchmark_...]: %s\n",
                   argc > 2 ? argv[2] : std::string(bytes.status().message()).c_str());
      return 2;
    }
    bench.bytes = static_cast<size_t>(*bytes) / 64 * 64;
  }
  Status status = bench.prepare();
  if (status.ok()) status = add_all(bench);
  if (!status.ok()) {
    std::fprintf(stderr, "weft-micro-gpu: %s\n", std::string(status.message()).c_str());
    return 1;
  }
  benchmark::AddCustomContext("gpu", bench.gpu->identity().name);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) { return weft::run(argc, argv); }
