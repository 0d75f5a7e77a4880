// The memory of each rank's GPU. Calls are enqueued on a stream of the rank's own.
#pragma once

#include <array>
#include <functional>

#include "bench/gpu_memory.h"
#include "bench/place.h"

namespace weft::bench {

class GpuPlace final : public Place {
 public:
  // See make_place(). An error where `measured` has no calls on memory of a GPU.
  static Result<std::unique_ptr<Place>> make(Communicator& measured, Communicator& control,
                                             const BenchOptions& options);

  Buffer make_buffer() const override;
  // Returns when all ranks have their memory: none may get or give back any while another one's
  // kernels wait.
  Result<bool> reserve(Buffer& input, size_t input_bytes, Buffer& output,
                       size_t output_bytes) override;
  Status deliver(const Buffer& buffer, Bytes whole) override;
  Status fetch(const Buffer& buffer, Bytes whole) override;
  Result<CallInfo> explain(const Invocation& invocation) override;
  // Barriers take the host's way.
  Status run(const Invocation& invocation, int iterations, int calls) override;
  Result<double> time(const Invocation& invocation, int iterations, int calls) override;

 private:
  static constexpr int kParts = 5;
  using Marks = std::array<OwnedTimer, kParts + 1>;  // made before any kernel may be waiting

  GpuPlace(Communicator& measured, Communicator& control, const BenchOptions& options,
           std::shared_ptr<Gpu> gpu, OwnedStream stream, Marks marks)
      : measured_(measured),
        control_(control),
        options_(options),
        host_(measured, options),
        gpu_(std::move(gpu)),
        stream_(std::move(stream)),
        marks_(std::move(marks)) {}
  // Microseconds, by the GPU's clock. What a failure was, shows behind the time.
  Result<double> time_on_stream(const Invocation& invocation, int iterations, int calls);
  Result<double> time_graph(const Invocation& invocation, int iterations, int calls, int launches);
  Result<double> time_each(int times, const std::function<Status()>& put);
  Result<OwnedGraph> capture(const Invocation& invocation, int calls);
  Status enqueue_iteration(const Invocation& invocation, int calls);
  Status told(const Status& status);
  Status copy(void* to, const void* from, size_t bytes);

  Communicator& measured_;
  Communicator& control_;
  const BenchOptions& options_;
  HostPlace host_;
  std::shared_ptr<Gpu> gpu_;
  OwnedStream stream_;
  Marks marks_;
};

}  // namespace weft::bench
