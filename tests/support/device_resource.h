// Containers whose memory is a device's, for devices whose memory the host reads and writes, too.
#pragma once

#include <memory_resource>
#include <new>

#include "engine/device/gpu.h"

namespace weft::test {

class DeviceResource final : public std::pmr::memory_resource {
 public:
  explicit DeviceResource(Gpu& device) : device_(device) {}

 private:
  void* do_allocate(size_t bytes, size_t) override {
    const Result<Bytes> memory = device_.allocate(bytes);
    if (!memory.ok()) throw std::bad_alloc();
    return memory->data();
  }
  void do_deallocate(void* at, size_t bytes, size_t) override {
    device_.release({static_cast<std::byte*>(at), bytes});
  }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }

  Gpu& device_;
};

}  // namespace weft::test
