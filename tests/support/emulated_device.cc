#include "tests/support/emulated_device.h"

#include <sys/mman.h>

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>

#include "base/text.h"
#include "kernels/cuda/kernels.h"

namespace weft::test {
namespace {

constexpr int kThreads = 32;

// How often it was recorded, and how many of these the stream has come to.
struct Recorded {
  std::atomic<uint64_t> asked{0}, come{0};
};

// What any device of the process has given: as with unified addressing, all know it.
struct Given {
  size_t bytes = 0;
  MemoryKind kind{};
};
struct Addresses {
  std::mutex mutex;
  std::map<const std::byte*, Given> given;
};
Addresses& addresses() {
  static Addresses all;
  return all;
}

class EmulatedDevice final : public Gpu {
 public:
  EmulatedDevice(emulator::Device& gpu, int resident_blocks, int ordinal)
      : gpu_(gpu),
        resident_blocks_(resident_blocks),
        identity_{"emulated", concat("emulated-", reinterpret_cast<uintptr_t>(&gpu)), ordinal} {}

  const DeviceIdentity& identity() const override { return identity_; }

  MemoryKind kind_of(const void* memory) const override {
    const std::lock_guard lock(addresses().mutex);
    const auto* const at = static_cast<const std::byte*>(memory);
    for (const auto& [begin, given] : addresses().given)
      if (at >= begin && at < begin + given.bytes) return given.kind;
    return MemoryKind::host;
  }

  Result<Bytes> allocate(size_t bytes, Content) override { return give(bytes, MemoryKind::device); }
  void release(Bytes memory) override {
    {
      const std::lock_guard lock(addresses().mutex);
      addresses().given.erase(memory.data());
    }
    ::munmap(memory.data(), memory.size());
  }
  Result<Bytes> allocate_host(size_t bytes) override { return give(bytes, MemoryKind::pinned); }
  void release_host(Bytes memory) override { release(memory); }

  Result<std::string> share(Bytes memory) override {
    std::byte* const at = memory.data();
    return std::string(reinterpret_cast<const char*>(&at), sizeof at);
  }
  Result<std::byte*> map(std::string_view shared) override {
    std::byte* at = nullptr;
    if (shared.size() != sizeof at) return Status(Code::mismatch, "no handle");
    std::memcpy(&at, shared.data(), sizeof at);
    return at;
  }
  void unmap(std::byte*) override {}
  Status reach(std::byte*) override { return {}; }

  Result<Stream> make_stream() override { return Stream{new emulator::Stream(gpu_)}; }
  void destroy_stream(Stream stream) override { delete &stream_of(stream); }
  Status copy(void* to, const void* from, size_t bytes, Stream stream) override {
    if (pageable_copies_wait() && kind_of(from) == MemoryKind::host)
      stream_of(stream).synchronize();
    if (bytes > 0) stream_of(stream).launch(1, 1, [=] { std::memcpy(to, from, bytes); });
    return {};
  }

  Result<uint32_t> prepare(ReduceOp op, DataType type) override {
    if (!device::interpret_kernel(op, type)) return unsupported("no such kernel");
    return static_cast<uint32_t>(resident_blocks_);
  }
  Status launch(const device::Program& program, const device::Call& call,
                const device::Limits& limits, uint32_t blocks, Stream stream) override {
    stream_of(stream).launch(static_cast<int>(blocks), kThreads,
                             device::interpret_kernel(program.op, program.type), program, call,
                             limits);
    return {};
  }

  Result<Event> make_event() override { return Event{new Recorded}; }
  void destroy_event(Event event) override { delete &recorded(event); }
  Status record(Event event, Stream stream) override {
    Recorded& r = recorded(event);
    stream_of(stream).launch(1, 1, [&r, number = ++r.asked] {
      uint64_t come = r.come;  // a later record may be over already, on another stream
      while (come < number && !r.come.compare_exchange_weak(come, number)) {
      }
    });
    return {};
  }
  Status wait(Stream stream, Event event) override {
    Recorded& r = recorded(event);
    stream_of(stream).launch(1, 1, [&r, number = r.asked.load()] {
      while (r.come < number) std::this_thread::yield();
    });
    return {};
  }
  Result<bool> is_done(Event event) override {
    return recorded(event).come == recorded(event).asked;
  }
  Result<bool> is_captured(Stream) override { return false; }
  Status synchronize(Stream stream) override {
    stream_of(stream).synchronize();
    return {};
  }

 private:
  Result<Bytes> give(size_t bytes, MemoryKind kind) {
    void* const memory =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return Status(Code::system, "no memory");
    const Bytes given{static_cast<std::byte*>(memory), bytes};
    const std::lock_guard lock(addresses().mutex);
    addresses().given[given.data()] = {bytes, kind};
    return given;
  }
  static emulator::Stream& stream_of(Stream stream) {
    return *static_cast<emulator::Stream*>(stream);
  }
  static Recorded& recorded(Event event) { return *static_cast<Recorded*>(event); }

  emulator::Device& gpu_;
  int resident_blocks_;
  DeviceIdentity identity_;
};

}  // namespace

std::atomic<bool>& pageable_copies_wait() {
  static std::atomic<bool> wait{false};
  return wait;
}

std::unique_ptr<Gpu> emulated_device(emulator::Device& gpu, int resident_blocks, int ordinal) {
  return std::make_unique<EmulatedDevice>(gpu, resident_blocks, ordinal);
}

}  // namespace weft::test
