#include "transport/tcp/slot_pool.h"

#include <algorithm>
#include <new>

namespace weft::tcp {

namespace {
constexpr std::align_val_t kAlign{64};
}

void SlotPool::Free::operator()(std::byte* memory) const { ::operator delete(memory, kAlign); }

SlotPool::~SlotPool() {
  while (last_) take(last_->bytes);
}

SlotPool::Memory SlotPool::take(size_t bytes) {
  Kept** at = &last_;
  while (*at && (*at)->bytes != bytes) at = &(*at)->next;
  if (Kept* const kept = *at) {
    *at = kept->next;
    return Memory(reinterpret_cast<std::byte*>(kept));
  }
  const size_t room = std::max(bytes, sizeof(Kept));
  return Memory(static_cast<std::byte*>(::operator new(room, kAlign, std::nothrow)));
}

void SlotPool::give(Memory memory, size_t bytes) {
  last_ = new (memory.release()) Kept{last_, bytes};
}

}  // namespace weft::tcp
