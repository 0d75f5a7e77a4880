// How every way to make a communicator goes: a handle at once, and a Job that makes the engine
// behind it.
#pragma once

#include <atomic>
#include <functional>

#include "nccl/group.h"

namespace weft::nccl {

struct Birth {
  ncclComm_t* out = nullptr;  // where the handle goes
  CommConfig config;
  int device = 0;
  std::shared_ptr<ncclComm> parent = nullptr;  // null: none
  bool childless = false;                      // this rank takes part, and gets nothing
  bool alone = false;                          // the parent's calls have to end before
  // Waits for the other ranks, and ends soon once `given_up` is set; a null pointer where
  // childless.
  std::function<Result<std::unique_ptr<Communicator>>(const std::atomic<bool>& given_up)> make;
};

// As Communicator::create, for such a `make`.
Result<std::unique_ptr<Communicator>> create_unless(const std::atomic<bool>& given_up,
                                                    Rendezvous& meet, const Options& options);

Answer give_birth(Birth birth);

}  // namespace weft::nccl
