// What the parts of a call cost that are not the work itself.
#include <benchmark/benchmark.h>

#include "engine/recorder.h"

namespace weft {
namespace {

void record_operation(benchmark::State& state) {
  Recorder recorder;
  const Signature call{.kind = Kind::all_reduce, .type = DataType::float32, .count = 2};
  const Recorder::Label label = recorder.label("ring/simple");
  uint64_t sequence = 0;
  for (auto step : state) {
    const uint64_t number = recorder.begin(++sequence, call, label);
    recorder.end(number, Recorder::State::done, false);
  }
}
BENCHMARK(record_operation);

void time_stamp(benchmark::State& state) {
  for (auto step : state) benchmark::DoNotOptimize(ticks());
}
BENCHMARK(time_stamp);

}  // namespace
}  // namespace weft
