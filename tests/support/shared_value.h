// Memory that all processes of a test see.
#pragma once

#include <sys/mman.h>

#include <new>

#include "base/status.h"

namespace weft::test {

// A value that this process and those that it forks share, for as long as one of them is there.
template <class T>
T& shared_value() {
  void* const memory =
      ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  WEFT_CHECK(memory != MAP_FAILED);
  return *new (memory) T();
}

}  // namespace weft::test
