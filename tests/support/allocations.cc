#include "tests/support/allocations.h"

#include <cstdlib>
#include <new>

namespace weft::test {
namespace {

thread_local bool counts = false;
thread_local int allocations = 0;

void* allocate(size_t size) {
  if (counts) ++allocations;
  if (void* memory = std::malloc(size)) return memory;
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
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
