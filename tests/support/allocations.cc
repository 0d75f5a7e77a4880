#include "tests/support/allocations.h"

#include <cstdlib>
#include <new>

namespace weft::test {
namespace {

thread_local bool counts = false;
thread_local int allocations = 0;

void* try_to_allocate(size_t size) {
  if (counts) ++allocations;
  return std::malloc(size);
}

void* allocate(size_t size) {
  if (void* memory = try_to_allocate(size)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void count_allocations() {
  allocations = 0;
  counts = true;
}

int counted_allocations() {
  counts = false;
  return allocations;
}

}  // namespace weft::test

void* operator new(size_t size) { return weft::test::allocate(size); }
void* operator new[](size_t size) { return weft::test::allocate(size); }
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return weft::test::try_to_allocate(size);
}
void* operator new[](size_t size, const std::nothrow_t&) noexcept {
  return weft::test::try_to_allocate(size);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
