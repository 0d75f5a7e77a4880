#include "tests/chaos/reserve.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace weft::chaos {
namespace {

constexpr size_t kAlign = alignof(std::max_align_t);

alignas(kAlign) std::byte reserve[8 << 20];
size_t used = 0, blocks = 0;  // of it; from the beginning again when none is left
thread_local bool from_reserve = false;

void* try_to_allocate(size_t size) {
  const size_t whole = (size + kAlign - 1) / kAlign * kAlign;
  if (!from_reserve || whole > sizeof reserve - used) return std::malloc(size);
  void* const memory = &reserve[used];
  used += whole;
  ++blocks;
  return memory;
}

void* allocate(size_t size) {
  if (void* memory = try_to_allocate(size)) return memory;
  throw std::bad_alloc();
}

void release(void* memory) {
  const auto at = reinterpret_cast<uintptr_t>(memory) - reinterpret_cast<uintptr_t>(reserve);
  if (at >= sizeof reserve) return std::free(memory);
  if (--blocks == 0) used = 0;
}

}  // namespace

FromReserve::FromReserve() { from_reserve = true; }
FromReserve::~FromReserve() { from_reserve = false; }

}  // namespace weft::chaos

void* operator new(size_t size) { return weft::chaos::allocate(size); }
void* operator new[](size_t size) { return weft::chaos::allocate(size); }
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return weft::chaos::try_to_allocate(size);
}
void* operator new[](size_t size, const std::nothrow_t&) noexcept {
  return weft::chaos::try_to_allocate(size);
}
void operator delete(void* memory) noexcept { weft::chaos::release(memory); }
void operator delete[](void* memory) noexcept { weft::chaos::release(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { weft::chaos::release(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept {
  weft::chaos::release(memory);
}
void operator delete(void* memory, size_t) noexcept { weft::chaos::release(memory); }
void operator delete[](void* memory, size_t) noexcept { weft::chaos::release(memory); }
