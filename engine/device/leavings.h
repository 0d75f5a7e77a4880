// Memory that a rank leaves behind for whoever of its process goes last: to give memory back CUDA
// waits for the whole GPU, and lets no other thread put there what that waits for.
//
// Thread safety: none. Its owner adds; who goes last releases.
#pragma once

#include <vector>

#include "engine/device/gpu.h"

namespace weft {

class Leavings {
 public:
  explicit Leavings(Gpu& device) : device_(device) {}
  ~Leavings() {
    for (const Bytes memory : on_device_) device_.release(memory);
    for (const Bytes memory : on_host_) device_.release_host(memory);
  }
  Leavings(const Leavings&) = delete;

  // What allocate() and allocate_host() of the device gave; or nothing.
  void add(Bytes memory) {
    if (!memory.empty()) on_device_.push_back(memory);
  }
  void add_host(Bytes memory) {
    if (!memory.empty()) on_host_.push_back(memory);
  }

 private:
  Gpu& device_;
  std::vector<Bytes> on_device_, on_host_;
};

}  // namespace weft
