// What the memory of the ranks' GPUs can do at best: the calibration of floor.h.
#pragma once

#include <memory>
#include <span>

#include "bench/floor.h"
#include "bench/report.h"
#include "engine/communicator.h"
#include "engine/device/gpu.h"

namespace weft::bench {

// Bytes copied per second from `gpu` to all of `targets` at once, by the size of a copy, up to
// 256 MiB, or what there is memory for, or what takes no longer than a moment: medians. A smaller
// copy counts as no slower than a larger one, as only its launch is. No rates where there is no
// memory at all. REQUIRES: no kernels that wait for others are under way on any of them.
Result<std::vector<Calibration::CopyRate>> measure_gpu_copies(
    const std::shared_ptr<Gpu>& gpu, std::span<const std::shared_ptr<Gpu>> targets);

// By all ranks, of which `gpu` is this one's: the first on each GPU measures that, at once; then
// rank 0, where no two share one, how fast data leaves its GPU. The same on all ranks.
Result<Calibration> calibrate_gpus(const std::shared_ptr<Gpu>& gpu, Communicator& control,
                                   std::span<const RankInfo> ranks);

}  // namespace weft::bench
