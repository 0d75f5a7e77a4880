// What the system lets processes of one user do with each other's memory.
#pragma once

#include <unistd.h>

#include <fstream>

namespace weft {

// Whether they may read it, if they are not parent and child; Linux' Yama
// (kernel.yama.ptrace_scope) may forbid it, and containers may for reasons of their own, which this
// does not see.
inline bool processes_read_each_other() {
  int scope = 0;
  std::ifstream("/proc/sys/kernel/yama/ptrace_scope") >> scope;
  return scope == 0 || (scope < 3 && ::geteuid() == 0);
}

}  // namespace weft
