// Memory that is kept for the test itself, so that what fails for want of memory is not the test.
#pragma once

namespace weft::chaos {

// While it lives, what this thread allocates by operator new comes out of the reserve, a few MiB.
// One thread of a process at a time.
class FromReserve {
 public:
  FromReserve();
  ~FromReserve();
  FromReserve(const FromReserve&) = delete;
  FromReserve& operator=(const FromReserve&) = delete;
};

}  // namespace weft::chaos
