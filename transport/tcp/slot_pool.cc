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

SlotPool::Kept** SlotPool::last_of(size_t bytes) {
  Kept** at = &last_;
  while (*at && (*at)->bytes != bytes) at = &(*at)->other;
  return at;
}

SlotPool::Memory SlotPool::take(size_t bytes) {
  Kept** const at = last_of(bytes);
  if (Kept* const kept = *at) {
    if (kept->next) kept->next->other = kept->other;
    *at = kept->next ? kept->next : kept->other;
    return Memory(reinterpret_cast<std::byte*>(kept));
  }
  const size_t room = std::max(bytes, sizeof(Kept));
  return Memory(static_cast<std::byte*>(::operator new(room, kAlign, std::nothrow)));
}

void SlotPool::give(Memory memory, size_t bytes) {
  Kept** const at = last_of(bytes);
  Kept* const before = *at;
  *at = new (memory.release()) Kept{before, before ? before->other : nullptr, bytes};
}

}  // namespace weft::tcp
