// The memory of processes, read through the kernel.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>

#include "base/types.h"

namespace weft::shm {

// A process, told from one that has its number, or from a program that has its place, later.
struct ReadableProcess {
  pid_t number = 0;
  uint64_t token_address = 0;  // there
  std::array<uint64_t, 2> token{};
};

// Copies from a process's memory, by its address there; 0, or why not all of it could be (an
// errno): ESRCH where it has ended, or something else is where its token was; EPERM where the
// kernel does not let us, as it may not with another one that has the number now; EFAULT where it
// has nothing there, or at the token's place, or we have not. `done`: bytes that were.
int read_process(const ReadableProcess& process, uint64_t address, Bytes into, size_t& done);

// Whether the first and the last byte can be read so.
bool ends_can_be_read(ConstBytes memory);

}  // namespace weft::shm
