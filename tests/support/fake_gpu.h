// A GPU in host memory that runs nothing.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "engine/device/gpu.h"

namespace weft::test {

// Gives memory, and shares it under a name as between processes. Counts what is left.
class FakeGpu final : public Gpu {
 public:
  struct Shared {  // of all ranks
    std::mutex mutex;
    std::map<std::string, std::byte*> by_name;
    int allocated = 0, mapped = 0, reached = 0;
  };
  FakeGpu(Shared& shared, std::string uuid) : shared_(shared), identity_{"fake", std::move(uuid)} {}

  void become(std::string uuid) { identity_.uuid = std::move(uuid); }

  bool refuses_memory = false, refuses_sharing = false, refuses_mapping = false, can_wait = true;

  const DeviceIdentity& identity() const override { return identity_; }
  Result<MemoryKind> kind_of(const void*) const override { return MemoryKind::host; }
  Result<Bytes> allocate(size_t bytes, Content) override {
    if (refuses_memory) return Status(Code::system, "the GPU is full");
    const std::lock_guard lock(shared_.mutex);
    ++shared_.allocated;
    return Bytes{new std::byte[bytes]{}, bytes};
  }
  void release(Bytes memory) override {
    const std::lock_guard lock(shared_.mutex);
    --shared_.allocated;
    delete[] memory.data();
  }
  Result<std::string> share(Bytes memory) override {
    if (refuses_sharing) return Status(Code::system, "memory cannot be shared");
    const std::lock_guard lock(shared_.mutex);
    const std::string name = concat("\xff\x01", shared_.by_name.size());  // no text
    shared_.by_name[name] = memory.data();
    return name;
  }
  Result<std::byte*> map(std::string_view shared) override {
    const std::lock_guard lock(shared_.mutex);
    const auto found = shared_.by_name.find(std::string(shared));
    if (refuses_mapping || found == shared_.by_name.end())
      return Status(Code::system, "it cannot be mapped");
    ++shared_.mapped;
    return found->second;
  }
  void unmap(std::byte*) override {
    const std::lock_guard lock(shared_.mutex);
    --shared_.mapped;
  }
  Status reach(std::byte*) override {
    const std::lock_guard lock(shared_.mutex);
    ++shared_.reached;
    return {};
  }
  Result<Fd> dma_buf(Bytes) override { return unsupported("the fake GPU gives no dma-bufs"); }
  Status flush_remote_writes() override { return {}; }
  Result<uint32_t> prepare(ReduceOp, DataType type) override {
    return type == DataType::fp8_e4m3 ? 60u : 132u;
  }

  Result<Bytes> allocate_host(size_t bytes) override { return allocate(bytes, Content::zero); }
  void release_host(Bytes memory) override { release(memory); }
  Result<Stream> make_stream() override { return none(); }
  void destroy_stream(Stream) override {}
  uint64_t number_of(Stream) const override { return 0; }
  Status copy(void*, const void*, size_t, Stream) override { return none(); }
  Status launch(const device::Program&, const device::Call&, const device::Limits&, uint32_t,
                Stream) override {
    return none();
  }
  Status launch(ReduceOp, DataType, const device::Operands&, const device::Tail&,
                const device::Limits&, uint32_t, Stream) override {
    return none();
  }
  Status wait(Stream, std::span<const device::CellWait>) override { return none(); }
  bool waits_for_cells() const override { return can_wait; }
  Result<Event> make_event() override { return none(); }
  void destroy_event(Event) override {}
  Status record(Event, Stream) override { return none(); }
  Status wait(Stream, Event) override { return none(); }
  Result<bool> is_done(Event) override { return none(); }
  Result<Event> make_timer() override { return none(); }
  Result<double> elapsed_us(Event, Event) override { return none(); }
  Status synchronize(Stream) override { return none(); }
  Result<uint64_t> capture_of(Stream) override { return none(); }
  Status begin_capture(Stream) override { return none(); }
  Result<Graph> end_capture(Stream) override { return none(); }
  Status keep(Stream, std::shared_ptr<const void>) override { return none(); }
  Status launch_graph(Graph, Stream) override { return none(); }
  void destroy_graph(Graph) override {}

 private:
  static Status none() { return unsupported("the fake GPU has no streams"); }
  Shared& shared_;
  DeviceIdentity identity_;
};

}  // namespace weft::test
