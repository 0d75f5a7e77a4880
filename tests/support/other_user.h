// Whether tests may run as somebody else.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include "tests/support/child.h"

namespace weft::test {

inline constexpr uid_t kNobody = 65534;

// Root may, but not in every container.
inline bool may_become_nobody() {
  return ::geteuid() == 0 && in_child([] {
                               if (::setresuid(kNobody, kNobody, kNobody) != 0) ::_exit(1);
                             }) == 0;
}

}  // namespace weft::test
