#include "bench/gpu_place.h"

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "bench/gather.h"

namespace weft::bench {

Result<std::unique_ptr<Place>> GpuPlace::make(Communicator& measured, Communicator& control,
                                              const BenchOptions& options) {
  const Result<std::shared_ptr<Gpu>> gpu = measured.device();
  if (!gpu.ok()) return gpu.status();
  const Result<OwnedStream> stream = stream_of(*gpu);
  if (!stream.ok()) return stream.status();
  Marks marks;
  for (OwnedTimer& mark : marks) {
    Result<OwnedTimer> timer = timer_of(*gpu);
    if (!timer.ok()) return timer.status();
    mark = timer.take();
  }
  return std::unique_ptr<Place>(
      new GpuPlace(measured, control, options, *gpu, *stream, std::move(marks)));
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
  if (!told.ok() || invocation.is_barrier() || told->transports.starts_with("gpu")) return told;
  CallInfo info;  // groups, and calls without elements, of which the engine does not tell
  info.algorithm = invocation.is_group() ? told->algorithm : "nothing to do";
  info.transports = "gpu";
  return info;
}

Status GpuPlace::run(const Invocation& invocation, int iterations, int calls) {
  if (invocation.is_barrier()) return host_.run(invocation, iterations, calls);
  if (options_.graph_launches > 0) return time_graph(invocation, iterations, calls, 1).status();
  return time_on_stream(invocation, iterations, calls).status();
}

Result<double> GpuPlace::time(const Invocation& invocation, int iterations, int calls) {
  if (invocation.is_barrier()) return host_.time(invocation, iterations, calls);
  const int launches = options_.graph_launches;
  if (launches > 0) return time_graph(invocation, iterations, calls, launches);
  return time_on_stream(invocation, iterations, calls);
}

Result<double> GpuPlace::time_on_stream(const Invocation& invocation, int iterations, int calls) {
  const Result<double> each_us =
      time_each(iterations, [&] { return enqueue_iteration(invocation, calls); });
  if (!each_us.ok()) return each_us;
  return *each_us * iterations;
}

// The graph of all iterations, for each of its launches. All ranks have theirs before the first is
// launched: to make one may take memory of the GPU, for which CUDA waits for kernels.
Result<double> GpuPlace::time_graph(const Invocation& invocation, int iterations, int calls,
                                    int launches) {
  if (iterations == 0) return 0.0;
  const Result<OwnedGraph> graph = capture(invocation, iterations * calls);
  if (!graph.ok()) return graph.status();
  WEFT_TRY(control_.barrier());
  return time_each(launches, [&] { return gpu_->launch_graph(graph->get(), stream_.get()); });
}

// Of what is put on the stream so many times: as many parts, one behind the other, and the one
// whose time is in the middle. What disturbs one of them, as an interrupt does, is left out.
Result<double> GpuPlace::time_each(int times, const std::function<Status()>& put) {
  const int parts = std::min(times, kParts);
  const auto begin_of = [&](int part) {
    return static_cast<int>(int64_t{times} * part / std::max(parts, 1));
  };
  Status status = gpu_->record(marks_[0].get(), stream_.get());
  for (int part = 0; part < parts && status.ok(); ++part) {
    for (int i = begin_of(part); i < begin_of(part + 1) && status.ok(); ++i) status = put();
    if (status.ok()) status = gpu_->record(marks_[part + 1].get(), stream_.get());
  }
  if (status.ok()) status = measured_.synchronize(stream_.get());
  WEFT_TRY(told(status));
  std::vector<double> each_us;
  for (int part = 0; part < parts; ++part) {
    const Result<double> us = gpu_->elapsed_us(marks_[part].get(), marks_[part + 1].get());
    if (!us.ok()) return us.status();
    each_us.push_back(*us / (begin_of(part + 1) - begin_of(part)));
  }
  std::sort(each_us.begin(), each_us.end());
  return each_us.empty() ? 0.0 : each_us[each_us.size() / 2];
}

Result<OwnedGraph> GpuPlace::capture(const Invocation& invocation, int calls) {
  WEFT_TRY(gpu_->begin_capture(stream_.get()));
  Status status;
  for (int i = 0; i < calls && status.ok(); ++i)
    status = invocation.enqueue(measured_, stream_.get());
  const Result<Gpu::Graph> graph = gpu_->end_capture(stream_.get());
  if (!graph.ok()) return status.ok() ? graph.status() : status;
  OwnedGraph made = own_graph(gpu_, *graph);
  if (!status.ok()) return status;
  return made;
}

// The communicator knows why, where kernels gave up: synchronize() where nobody has ended these
// calls yet.
Status GpuPlace::told(const Status& status) {
  WEFT_TRY(measured_.synchronize());
  WEFT_TRY(measured_.health());
  return status;
}

// The stream is waited for where each iteration is to be.
Status GpuPlace::enqueue_iteration(const Invocation& invocation, int calls) {
  for (int i = 0; i < calls; ++i) WEFT_TRY(invocation.enqueue(measured_, stream_.get()));
  return options_.blocking ? measured_.synchronize(stream_.get()) : Status();
}

}  // namespace weft::bench
