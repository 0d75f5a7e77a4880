// Which process made an object.
#pragma once

#include <sys/types.h>
#include <unistd.h>

namespace weft {

// Kept by what reaches outside of its process's memory: sockets, shared memory, threads. A forked
// child has a copy of it, and what the child's copy does on its way out would be done in the
// parent's name. So there, destructors leave all alone; descriptors may be closed.
class OriginProcess {
 public:
  OriginProcess() : id_(::getpid()) {}
  // Whether this is the process that made the object, not a forked child of it.
  bool here() const { return id_ == ::getpid(); }

 private:
  pid_t id_;
};

}  // namespace weft
