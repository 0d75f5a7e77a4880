// Lines that other cores have read, claimed before they are written again.
//
// A store that comes upon such a line waits until it has been fetched and given up there, and few
// stores wait at a time. Asked for early enough, it is this core's own when the store comes.
#pragma once

#include <cstddef>

#include "kernels/isa.h"
#include "kernels/number.h"

namespace weft {

inline constexpr size_t kClaimAhead = 1024;  // bytes; by stretches, half of it to all

// As Kit::claim(): the lines of `kBytes` bytes.
template <class Kit, size_t kBytes>
WEFT_HD void claim_lines(const char* begin) {
  for (size_t at = 0; at < kBytes; at += kCopyLine) Kit::claim(begin + at);
}

}  // namespace weft
