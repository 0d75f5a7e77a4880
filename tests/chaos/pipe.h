// What chaos' ranks tell their harness through.
#pragma once

#include <poll.h>
#include <unistd.h>

#include <limits>

#include "base/clock.h"
#include "base/fd.h"
#include "base/status.h"

namespace weft::chaos {

struct Pipe {
  Pipe() {
    int ends[2];
    WEFT_CHECK(::pipe(ends) == 0);
    read = Fd(ends[0]);
    write = Fd(ends[1]);
  }
  Fd read, write;
};

// Whether something was written to it by then, or nobody is left who could.
inline bool has_news(const Pipe& pipe, const Deadline& deadline) {
  pollfd entry{pipe.read.get(), POLLIN, 0};
  return ::poll(&entry, 1, deadline.left_ms(std::numeric_limits<int>::max())) > 0;
}

}  // namespace weft::chaos
