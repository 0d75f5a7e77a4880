// How every way to make a communicator goes: a handle at once, and a Job that makes the engine
// behind it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "engine/device/gpu.h"
#include "nccl/group.h"
#include "nccl/settings.h"

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

// The GPU that WEFT_DEVICE names; "auto": the calling thread's current one. Or why there is none.
Result<std::shared_ptr<Gpu>> find_gpu(const std::string& wish);

// What an engine is made with. The GPU is found on the thread that asks for a communicator: its
// current one, or, where the program uses GPUs at all, the one that is named.
struct Means {
  explicit Means(Options how, std::optional<int> named_gpu = {});
  explicit Means(const Communicator& parent);  // those of another one
  Options options;
  Result<std::shared_ptr<Gpu>> gpu;
  // With another rank. One rank that may not refuses it for all.
  bool may_share_gpu = ranks_may_share_gpu(Environment::of_process());

  // That of the GPU; where there is none, `otherwise`.
  int ordinal(int otherwise) const { return gpu.ok() ? (*gpu)->identity().ordinal : otherwise; }
};

// As Communicator::create, for such a `make`.
Result<std::unique_ptr<Communicator>> create_unless(const std::atomic<bool>& given_up,
                                                    Rendezvous& meet, const Means& means);

Answer give_birth(Birth birth);

}  // namespace weft::nccl
