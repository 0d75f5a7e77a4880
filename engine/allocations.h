// What a communicator has allocated on this rank for peers to map, and where buffers lie in it.
//
// Thread safety: calls may come from any thread: memory is freed where its last holder lets go of
// it, also after the communicator is gone. In a forked child memory may be let go of, and nothing
// else.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/origin_process.h"
#include "transport/transport.h"

namespace weft {

class Allocations {
 public:
  // In which allocation memory lies, and how many bytes from its begin; 0: in none.
  struct Place {
    uint32_t number = 0;
    uint64_t offset = 0;
  };

  // From now on this is allocation `number`, until the last copy of the pointer is gone.
  static std::shared_ptr<std::byte> add(const std::shared_ptr<Allocations>& all, uint32_t number,
                                        std::shared_ptr<SharedMemory> memory);

  Place find(const void* memory, size_t bytes) const;
  // nullptr where it has been freed.
  std::shared_ptr<SharedMemory> get(uint32_t number) const;
  // What has been freed since this was asked last.
  std::vector<uint32_t> take_freed();
  // The communicator has failed: peers may be late in calls that read this memory, so what is freed
  // from now on stays as it is for them.
  void abandon();

 private:
  struct Entry {
    uint32_t number;
    std::weak_ptr<SharedMemory> memory;
    size_t bytes;
  };
  void free(SharedMemory& memory, uint32_t number);

  const OriginProcess process_;
  mutable std::mutex mutex_;
  std::map<const std::byte*, Entry> by_address_;
  std::vector<uint32_t> freed_;
  bool abandoned_ = false;
};

}  // namespace weft
