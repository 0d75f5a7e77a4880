#include "transport/verbs/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace weft::verbs {
namespace {

constexpr uintptr_t kPage = 4096;
constexpr int kLocalAndRemote = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

}  // namespace

Result<OwnMemory> OwnMemory::make(Device& device, size_t bytes) {
  const size_t whole = (bytes + kPage - 1) / kPage * kPage;
  // Not inherited by forked children: their copy-on-write would take the pages from the device.
  void* const memory =
      ::mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return system_error(concat("mmap of ", whole, " bytes"));
  (void)::madvise(memory, whole, MADV_DONTFORK);
  ibv_mr* const mr = device.verbs().reg_mr(device.pd(), memory, whole, kLocalAndRemote);
  if (!mr) {
    const Status why = device.failure(concat("ibv_reg_mr of ", whole, " bytes"));
    ::munmap(memory, whole);
    return why;
  }
  OwnMemory own;
  own.verbs_ = &device.verbs();
  own.memory_ = static_cast<std::byte*>(memory);
  own.mr_ = mr;
  return own;
}

OwnMemory::OwnMemory(OwnMemory&& other) noexcept
    : verbs_(other.verbs_),
      memory_(std::exchange(other.memory_, nullptr)),
      mr_(std::exchange(other.mr_, nullptr)) {}

OwnMemory& OwnMemory::operator=(OwnMemory&& other) noexcept {
  std::swap(verbs_, other.verbs_);
  std::swap(memory_, other.memory_);
  std::swap(mr_, other.mr_);
  return *this;
}

OwnMemory::~OwnMemory() {
  if (!mr_ || !process_.here()) return;
  const size_t bytes = mr_->length;
  verbs_->dereg_mr(mr_);
  ::munmap(memory_, bytes);
}

MemoryCache::~MemoryCache() {
  for (auto at = entries_.begin(); at != entries_.end();) at = erase(at);
}

MemoryCache::Handle MemoryCache::find(uintptr_t begin, uintptr_t end, bool writable) {
  // Of those that begin earlier only the last: segments of one buffer are of one size mostly.
  auto at = entries_.upper_bound(begin);
  while (at != entries_.begin()) {
    --at;
    const Entry& entry = at->second;
    if (entry.end >= end && !entry.forgotten && (entry.writable || !writable)) return at;
    if (at->first < begin) break;
  }
  return none();
}

MemoryCache::Handle MemoryCache::acquire(ConstBytes memory, bool writable) {
  const auto first = reinterpret_cast<uintptr_t>(memory.data());
  const uintptr_t begin = first / kPage * kPage;
  const uintptr_t end = (first + memory.size() + kPage - 1) / kPage * kPage;
  Handle found = find(begin, end, writable);
  if (found == none()) found = enter(begin, end, writable);
  if (found == none() && evict()) found = enter(begin, end, writable);
  if (found != none()) ++found->second.users;
  return found;
}

MemoryCache::Handle MemoryCache::enter(uintptr_t begin, uintptr_t end, bool writable) {
  ibv_mr* const mr = device_.verbs().reg_mr(device_.pd(), reinterpret_cast<void*>(begin),
                                            end - begin, writable ? kLocalAndRemote : 0);
  if (!mr) return none();
  return entries_.emplace(begin, Entry{end, writable, false, 0, mr});
}

MemoryCache::Handle MemoryCache::erase(Handle handle) {
  if (device_.here()) device_.verbs().dereg_mr(handle->second.mr);
  return entries_.erase(handle);
}

void MemoryCache::release(Handle handle) {
  if (--handle->second.users == 0 && handle->second.forgotten) erase(handle);
}

bool MemoryCache::evict() {
  const size_t before = entries_.size();
  for (auto at = entries_.begin(); at != entries_.end();)
    at = at->second.users == 0 ? erase(at) : std::next(at);
  return entries_.size() < before;
}

void MemoryCache::forget() {
  if (entries_.empty()) return;
  evict();
  for (auto& [begin, entry] : entries_) entry.forgotten = true;
}

DeviceMemory::~DeviceMemory() {
  if (!device_.here()) return;
  for (const Region& region : regions_) device_.verbs().dereg_mr(region.mr);
}

Status DeviceMemory::add(Bytes memory, int dma_buf) {
  ibv_mr* const mr = device_.verbs().reg_dmabuf_mr(device_.pd(), 0, memory.size(),
                                                   reinterpret_cast<uint64_t>(memory.data()),
                                                   dma_buf, kLocalAndRemote);
  if (!mr)
    return system_error(concat(device_.place().port, ": ibv_reg_dmabuf_mr of ", memory.size(),
                               " bytes (it needs rdma-core 34, Linux 5.12 and a driver that takes "
                               "dma-bufs)"));
  regions_.push_back({memory, mr});
  return {};
}

void DeviceMemory::remove(Bytes memory) {
  std::erase_if(regions_, [&](const Region& region) {
    const bool found = region.memory.data() == memory.data();
    if (found && device_.here()) device_.verbs().dereg_mr(region.mr);
    return found;
  });
}

const ibv_mr& DeviceMemory::find(ConstBytes memory) const {
  const auto found = std::ranges::find_if(regions_, [memory](const Region& region) {
    const ConstBytes all = region.memory;
    return memory.data() >= all.data() && memory.data() + memory.size() <= all.data() + all.size();
  });
  WEFT_CHECK(found != regions_.end());
  return *found->mr;
}

}  // namespace weft::verbs
