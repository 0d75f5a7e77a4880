// The process has no memory left. What can be large is asked for without throwing and told as any
// other failure; whatever else throws ends at an entry of the engine, and with it the communicator.
#include <array>
#include <memory>

#include "base/text.h"
#include "engine/engine.h"

namespace weft {

Status no_memory(Rank me) {
  return Status(Code::system,
                concat("Cannot allocate memory on rank ", me, "; let the process have more ",
                       "(ulimit -v, or the limit of its container), or make fewer calls at a time"),
                me);
}

void ask_for_room() {
  std::array<std::unique_ptr<std::byte[]>, 64> room;
  for (auto& block : room) {
    block = std::make_unique_for_overwrite<std::byte[]>(8 << 10);
    static_cast<volatile std::byte*>(block.get())[0] = {};  // it is there, whatever compilers know
  }
}

void Engine::give_reserve() {
  const std::lock_guard lock(failure_mutex_);
  reserve_.reset();
}

// Without memory of its own. To tell the others takes some: where that throws, letting go of the
// callers' memory comes next, as what has been tried once is not tried again.
Status Engine::out_of_memory() {
  (void)record_failure(no_memory_);
  give_reserve();
  for (int tries = 0; tries < 2; ++tries) {
    try {
      (void)fail_freely(no_memory_);
      break;
    } catch (const std::bad_alloc&) {
      continue;
    }
  }
  return health();
}

}  // namespace weft
