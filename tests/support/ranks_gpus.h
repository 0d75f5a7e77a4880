// The GPU that ranks of a test share on each host: one made of threads (emulated_ranks_gpus.cc), or
// this machine's first one (cuda_ranks_gpus.cc), as a test is linked.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/types.h"
#include "engine/device/gpu.h"

namespace weft::test {

class RanksGpus {
 public:
  // Nothing of it may be in use where it goes.
  explicit RanksGpus(const std::vector<std::string>& host_of_rank);
  ~RanksGpus();
  std::shared_ptr<Gpu> of(Rank rank) const;  // a WithMemory

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

// What the stream is given behind this does not run until `go`.
void hold(Gpu::Stream stream, const std::atomic<bool>& go);

}  // namespace weft::test
