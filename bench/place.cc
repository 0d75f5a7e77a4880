#include "bench/place.h"

#include <vector>

#include "bench/gpu_place.h"

namespace weft::bench {

Buffer HostPlace::make_buffer() const {
  if (!options_.communicator_buffers) return Buffer(options_.misalign_bytes);
  return Buffer(options_.misalign_bytes, [&measured = measured_](size_t bytes) {
    auto memory = measured.allocate(bytes);
    return memory.ok() ? memory.take() : nullptr;
  });
}

Result<bool> HostPlace::reserve(Buffer& input, size_t input_bytes, Buffer& output,
                                size_t output_bytes) {
  return input.reserve(input_bytes) && output.reserve(output_bytes);
}

Result<CallInfo> HostPlace::explain(const Invocation& invocation) {
  return invocation.explain(measured_);
}

Status HostPlace::run(const Invocation& invocation, int iterations, int calls) {
  for (int i = 0; i < iterations; ++i) WEFT_TRY(run_iteration(invocation, calls));
  return {};
}

Result<double> HostPlace::time(const Invocation& invocation, int iterations, int calls) {
  const int64_t begin = steady_clock().now_ns();
  WEFT_TRY(run(invocation, iterations, calls));
  return microseconds_since(begin);
}

Status HostPlace::run_iteration(const Invocation& invocation, int calls) {
  if (options_.blocking) {
    for (int i = 0; i < calls; ++i) WEFT_TRY(invocation.run(measured_));
    return {};
  }
  std::vector<Work> works;
  for (int i = 0; i < calls; ++i) works.push_back(invocation.start(measured_));
  Status status;
  for (const Work& work : works)
    if (const Status ended = work.wait(); status.ok()) status = ended;
  return status;
}

Result<std::unique_ptr<Place>> make_place(Communicator& measured, Communicator& control,
                                          const BenchOptions& options) {
  if (options.gpu_memory) return GpuPlace::make(measured, control, options);
  return std::unique_ptr<Place>(std::make_unique<HostPlace>(measured, options));
}

}  // namespace weft::bench
