// How every way to make a communicator goes: a handle at once, and a Job that makes the engine
// behind it.
#pragma once

#include <functional>

#include "nccl/group.h"

namespace weft::nccl {

struct Birth {
  ncclComm_t* out = nullptr;  // where the handle goes
  CommConfig config;
  int device = 0;
  std::shared_ptr<ncclComm> parent = nullptr;  // null: none
  bool childless = false;                      // this rank takes part, and gets nothing
  // Waits for the other ranks; a null pointer where childless.
  std::function<Result<std::unique_ptr<Communicator>>()> make;
};

Answer give_birth(Birth birth);

}  // namespace weft::nccl
