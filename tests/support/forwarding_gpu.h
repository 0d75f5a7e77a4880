// A GPU that does what another one does, but for what a test overrides.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "engine/device/gpu.h"

namespace weft::test {

class ForwardingGpu : public Gpu {
 public:
  explicit ForwardingGpu(std::shared_ptr<Gpu> to) : to_(std::move(to)) {}

  const DeviceIdentity& identity() const override { return to_->identity(); }
  Result<MemoryKind> kind_of(const void* memory) const override { return to_->kind_of(memory); }

  Result<Bytes> allocate(size_t bytes, Content content) override {
    return to_->allocate(bytes, content);
  }
  void release(Bytes memory) override { to_->release(memory); }
  Result<Bytes> allocate_host(size_t bytes) override { return to_->allocate_host(bytes); }
  void release_host(Bytes memory) override { to_->release_host(memory); }
  Result<std::string> share(Bytes memory) override { return to_->share(memory); }
  Result<std::byte*> map(std::string_view shared) override { return to_->map(shared); }
  void unmap(std::byte* memory) override { to_->unmap(memory); }
  Status reach(std::byte* memory) override { return to_->reach(memory); }
  Result<Fd> dma_buf(Bytes memory) override { return to_->dma_buf(memory); }
  Status flush_remote_writes() override { return to_->flush_remote_writes(); }

  Result<Stream> make_stream() override { return to_->make_stream(); }
  void destroy_stream(Stream stream) override { to_->destroy_stream(stream); }
  uint64_t number_of(Stream stream) const override { return to_->number_of(stream); }
  Status copy(void* to, const void* from, size_t bytes, Stream stream) override {
    return to_->copy(to, from, bytes, stream);
  }

  Result<uint32_t> prepare(ReduceOp op, DataType type) override { return to_->prepare(op, type); }
  Status launch(const device::Program& program, const device::Call& call,
                const device::Limits& limits, uint32_t blocks, Stream stream) override {
    return to_->launch(program, call, limits, blocks, stream);
  }
  Status launch(ReduceOp op, DataType type, const device::Operands& operands,
                const device::Tail& tail, const device::Limits& limits, uint32_t blocks,
                Stream stream) override {
    return to_->launch(op, type, operands, tail, limits, blocks, stream);
  }
  Status wait(Stream stream, std::span<const device::CellWait> cells) override {
    return to_->wait(stream, cells);
  }
  bool waits_for_cells() const override { return to_->waits_for_cells(); }

  Result<Event> make_event() override { return to_->make_event(); }
  void destroy_event(Event event) override { to_->destroy_event(event); }
  Status record(Event event, Stream stream) override { return to_->record(event, stream); }
  Status wait(Stream stream, Event event) override { return to_->wait(stream, event); }
  Result<bool> is_done(Event event) override { return to_->is_done(event); }
  Result<Event> make_timer() override { return to_->make_timer(); }
  Result<double> elapsed_us(Event begin, Event end) override { return to_->elapsed_us(begin, end); }
  Status synchronize(Stream stream) override { return to_->synchronize(stream); }

  Result<uint64_t> capture_of(Stream stream) override { return to_->capture_of(stream); }
  Status begin_capture(Stream stream) override { return to_->begin_capture(stream); }
  Result<Graph> end_capture(Stream stream) override { return to_->end_capture(stream); }
  Status keep(Stream stream, std::shared_ptr<const void> what) override {
    return to_->keep(stream, std::move(what));
  }
  Status launch_graph(Graph graph, Stream stream) override {
    return to_->launch_graph(graph, stream);
  }
  void destroy_graph(Graph graph) override { to_->destroy_graph(graph); }

 private:
  const std::shared_ptr<Gpu> to_;
};

}  // namespace weft::test
