#include "bench/gpu_place.h"

#include <algorithm>

#include "base/text.h"
#include "bench/gather.h"

namespace weft::bench {
namespace {

// Calls of a rank that are on its stream at once, at most. CUDA's queues are finite, and who waits
// for room in one may keep other threads, whose kernels are waited for, from launching theirs.
constexpr int kCallsAtOnce = 256;

}  // namespace

Result<std::unique_ptr<Place>> GpuPlace::make(Communicator& measured, Communicator& control,
                                              const BenchOptions& options) {
  const Result<std::shared_ptr<Gpu>> gpu = measured.device();
  if (!gpu.ok()) return gpu.status();
  const Result<OwnedStream> stream = stream_of(*gpu);
  if (!stream.ok()) return stream.status();
  return std::unique_ptr<Place>(new GpuPlace(measured, control, options, *gpu, *stream));
}

Buffer GpuPlace::make_buffer() const {
  return Buffer(options_.misalign_bytes, from_malloc,
                [gpu = gpu_](size_t bytes) { return memory_of(gpu, bytes); });
}

Result<bool> GpuPlace::reserve(Buffer& input, size_t input_bytes, Buffer& output,
                               size_t output_bytes) {
  const bool has = input.reserve(input_bytes) && output.reserve(output_bytes);
  const Result<std::vector<char>> all = gather_values(control_, static_cast<char>(has));
  if (!all.ok()) return all.status();
  if (!has) return false;
  const auto without = std::find(all->begin(), all->end(), 0);
  if (without == all->end()) return true;
  const auto rank = static_cast<Rank>(without - all->begin());
  return Status(Code::system, concat("Rank ", rank, " has no memory for its buffers."), rank);
}

Status GpuPlace::copy(void* to, const void* from, size_t bytes) {
  WEFT_TRY(gpu_->copy(to, from, bytes, stream_.get()));
  return gpu_->synchronize(stream_.get());
}

Status GpuPlace::deliver(const Buffer& buffer, Bytes whole) {
  return copy(buffer.of_calls(whole).data(), whole.data(), whole.size());
}

Status GpuPlace::fetch(const Buffer& buffer, Bytes whole) {
  return copy(whole.data(), buffer.of_calls(whole).data(), whole.size());
}

Result<CallInfo> GpuPlace::explain(const Invocation& invocation) {
  Result<CallInfo> told = invocation.explain(measured_);
  if (!told.ok() || invocation.is_barrier() || told->transports == "gpu") return told;
  CallInfo info;  // groups, and calls without elements, of which the engine does not tell
  info.algorithm = invocation.is_group() ? told->algorithm : "nothing to do";
  info.transports = "gpu";
  return info;
}

Result<double> GpuPlace::run(const Invocation& invocation, int iterations, int calls) {
  if (invocation.is_barrier()) return host_.run(invocation, iterations, calls);
  const int64_t begin = steady_clock().now_ns();
  const Status status = enqueue_all(invocation, iterations, calls);
  const double elapsed_us = microseconds_since(begin);
  // They know why, where kernels gave up: the first one where nobody has ended these calls yet.
  WEFT_TRY(measured_.synchronize());
  WEFT_TRY(measured_.health());
  WEFT_TRY(status);
  return elapsed_us;
}

// Until the stream has come past them. It is waited for once, but where there are too many calls,
// or each iteration is to be waited for.
Status GpuPlace::enqueue_all(const Invocation& invocation, int iterations, int calls) {
  const int64_t all = int64_t{iterations} * calls;
  int under_way = 0;
  for (int64_t done = 1; done <= all; ++done) {
    WEFT_TRY(invocation.enqueue(measured_, stream_.get()));
    const bool ends_iteration = done % calls == 0;
    if (++under_way < kCallsAtOnce && !(options_.blocking && ends_iteration)) continue;
    WEFT_TRY(measured_.synchronize(stream_.get()));
    under_way = 0;
  }
  return measured_.synchronize(stream_.get());
}

}  // namespace weft::bench
