#include "engine/allocations.h"

#include <utility>

namespace weft {

std::shared_ptr<std::byte> Allocations::add(const std::shared_ptr<Allocations>& all,
                                            uint32_t number, std::shared_ptr<SharedMemory> memory) {
  const Bytes bytes = memory->bytes();
  {
    const std::lock_guard lock(all->mutex_);
    all->by_address_[bytes.data()] = {number, memory, bytes.size()};
  }
  return {bytes.data(), [all, number, held = std::move(memory)](std::byte*) mutable {
            all->free(*held, number);
            held.reset();
          }};
}

// Not in a forked child, where a thread that is not there may hold the lock.
void Allocations::free(SharedMemory& memory, uint32_t number) {
  if (!process_.here()) return;
  const std::lock_guard lock(mutex_);
  by_address_.erase(memory.bytes().data());
  if (abandoned_) return;
  memory.discard();
  freed_.push_back(number);
}

Allocations::Place Allocations::find(const void* memory, size_t bytes) const {
  const auto* const begin = static_cast<const std::byte*>(memory);
  const std::lock_guard lock(mutex_);
  auto at = by_address_.upper_bound(begin);
  if (at == by_address_.begin()) return {};
  --at;
  const auto offset = static_cast<size_t>(begin - at->first);
  const size_t size = at->second.bytes;
  if (offset > size || bytes > size - offset) return {};
  return {at->second.number, offset};
}

std::shared_ptr<SharedMemory> Allocations::get(uint32_t number) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [begin, entry] : by_address_)
    if (entry.number == number) return entry.memory.lock();
  return nullptr;
}

std::vector<uint32_t> Allocations::take_freed() {
  const std::lock_guard lock(mutex_);
  return std::exchange(freed_, {});
}

void Allocations::abandon() {
  const std::lock_guard lock(mutex_);
  abandoned_ = true;
}

}  // namespace weft
