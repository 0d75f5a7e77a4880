// The memory of processes, read through the kernel.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "base/types.h"

namespace weft::shm {

// Copies from a process's memory, by its address there; 0, or why not all of it could be (an
// errno): ESRCH where the process has ended, EPERM where the kernel does not let us, EFAULT where
// it has nothing there, or we have not. `done`: bytes that were.
int read_process(pid_t process, uint64_t address, Bytes into, size_t& done);

// Whether the first and the last byte can be read so.
bool ends_can_be_read(ConstBytes memory);

}  // namespace weft::shm
