// Whether peers could read a caller's memory through the kernel, without asking that each time.
#pragma once

#include <array>

#include "engine/media.h"

namespace weft {

// Remembers for a tenth of a second what it has seen of the buffers that were asked for last: what
// lies at an address hardly ever becomes something else, and where it does, readers find out.
class ReadableMemory {
 public:
  // REQUIRES: media.windows_everywhere()
  bool holds(ConstBytes memory, const Media& media) {
    if (!media.is_readable({})) return false;  // of all that was seen
    const int64_t now_ns = media.clock().now_ns();
    for (const Seen& seen : seen_)
      if (seen.memory.data() == memory.data() && seen.memory.size() == memory.size() &&
          now_ns - seen.at_ns < kRemembered_ns)
        return seen.readable;
    Seen& oldest = seen_[next_++ % seen_.size()];
    oldest = {memory, media.is_readable(memory), now_ns};
    return oldest.readable;
  }

 private:
  static constexpr int64_t kRemembered_ns = 100'000'000;
  struct Seen {
    ConstBytes memory{};
    bool readable = false;
    int64_t at_ns = 0;
  };
  std::array<Seen, 8> seen_{};
  size_t next_ = 0;
};

}  // namespace weft
