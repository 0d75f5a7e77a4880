// Memory that the device may read and write.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "base/origin_process.h"
#include "base/types.h"
#include "transport/verbs/device.h"

namespace weft::verbs {

// Zeroed memory of our own, page by page, registered for local and remote use.
class OwnMemory {
 public:
  OwnMemory() = default;
  static Result<OwnMemory> make(Device& device, size_t bytes);
  OwnMemory(OwnMemory&& other) noexcept;
  OwnMemory& operator=(OwnMemory&& other) noexcept;
  ~OwnMemory();

  std::byte* data() const { return memory_; }
  uint64_t address() const { return reinterpret_cast<uint64_t>(memory_); }
  uint32_t lkey() const { return mr_->lkey; }
  uint32_t rkey() const { return mr_->rkey; }
  explicit operator bool() const { return mr_ != nullptr; }

 private:
  Verbs* verbs_ = nullptr;
  std::byte* memory_ = nullptr;
  ibv_mr* mr_ = nullptr;
  OriginProcess process_;
};

// Registrations of callers' memory, by whole pages. They are kept for reuse until forget(), because
// afterwards the caller may free the memory and get other pages at the same address.
class MemoryCache {
 public:
  struct Entry {
    uintptr_t end = 0;
    bool writable = false;  // by peers
    bool forgotten = false;
    int users = 0;
    ibv_mr* mr = nullptr;
  };
  using Handle = std::multimap<uintptr_t, Entry>::iterator;

  explicit MemoryCache(Device& device) : device_(device) {}
  ~MemoryCache();
  MemoryCache(const MemoryCache&) = delete;
  MemoryCache& operator=(const MemoryCache&) = delete;

  Handle none() { return entries_.end(); }
  // none() where the device will not have it; then the caller copies.
  Handle acquire(ConstBytes memory, bool writable);
  void release(Handle handle);
  // Nothing that is registered now will be found again.
  void forget();

  size_t size() const { return entries_.size(); }

 private:
  Handle find(uintptr_t begin, uintptr_t end, bool writable);
  Handle enter(uintptr_t begin, uintptr_t end, bool writable);
  Handle erase(Handle handle);
  bool evict();

  Device& device_;
  std::multimap<uintptr_t, Entry> entries_;  // by address of the first page
};

// Memory of GPUs, registered until its owner takes it back or this goes: unlike callers' memory it
// stays that long. Nothing here touches its bytes.
class DeviceMemory {
 public:
  explicit DeviceMemory(Device& device) : device_(device) {}
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  // `dma_buf` begins where the memory does.
  Status add(Bytes memory, int dma_buf);
  void remove(Bytes memory);  // as it was added
  // The registration that all of it lies in. REQUIRES: there is one.
  const ibv_mr& find(ConstBytes memory) const;

 private:
  Device& device_;
  struct Region {
    ConstBytes memory;
    ibv_mr* mr;  // its address is no pointer: libibverbs puts the offset in the dma-buf there
  };
  std::vector<Region> regions_;
};

}  // namespace weft::verbs
