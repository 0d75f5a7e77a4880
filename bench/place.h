// Where the data of cases lies, and how calls on it are run and timed: in the host's memory, or in
// that of GPUs.
//
// Data is always prepared and checked in the host's memory (Buffer::data()); deliver() and fetch()
// take it to where calls find it, and back.
#pragma once

#include <memory>

#include "base/clock.h"
#include "bench/buffer.h"
#include "bench/invocation.h"
#include "bench/options.h"
#include "engine/communicator.h"

namespace weft::bench {

inline double microseconds_since(int64_t begin_ns) {
  return static_cast<double>(steady_clock().now_ns() - begin_ns) * 1e-3;
}

class Place {
 public:
  virtual ~Place() = default;

  virtual Buffer make_buffer() const = 0;
  // Room for so many bytes of data in buffers of this place, by all ranks; what they held is lost.
  // False where this rank has no memory for them.
  virtual Result<bool> reserve(Buffer& input, size_t input_bytes, Buffer& output,
                               size_t output_bytes) = 0;
  // `whole` of a buffer, to where calls find it, and from there.
  virtual Status deliver(const Buffer& buffer, Bytes whole) = 0;
  virtual Status fetch(const Buffer& buffer, Bytes whole) = 0;

  virtual Result<CallInfo> explain(const Invocation& invocation) = 0;
  // Makes so many iterations of so many calls each and waits for all.
  virtual Status run(const Invocation& invocation, int iterations, int calls) = 0;
  // Microseconds that this takes; maybe once out of several times.
  virtual Result<double> time(const Invocation& invocation, int iterations, int calls) = 0;
};

// The host's memory.
class HostPlace final : public Place {
 public:
  // Both outlive it.
  HostPlace(Communicator& measured, const BenchOptions& options)
      : measured_(measured), options_(options) {}

  Buffer make_buffer() const override;
  Result<bool> reserve(Buffer& input, size_t input_bytes, Buffer& output,
                       size_t output_bytes) override;
  Status deliver(const Buffer&, Bytes) override { return {}; }
  Status fetch(const Buffer&, Bytes) override { return {}; }
  Result<CallInfo> explain(const Invocation& invocation) override;
  Status run(const Invocation& invocation, int iterations, int calls) override;
  Result<double> time(const Invocation& invocation, int iterations, int calls) override;

 private:
  Status run_iteration(const Invocation& invocation, int calls);

  Communicator& measured_;
  const BenchOptions& options_;
};

// As the options say. All outlive it; `control` is for what ranks agree on.
Result<std::unique_ptr<Place>> make_place(Communicator& measured, Communicator& control,
                                          const BenchOptions& options);

}  // namespace weft::bench
