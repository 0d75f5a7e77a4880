// The GPU made of threads (tests/emulator), as the engine sees a GPU. Who gives memory back waits
// for all that was under way, as with CUDA.
#pragma once

#include <memory>

#include "engine/device/gpu.h"
#include "tests/emulator/emulator.h"

namespace weft::test {

// Several may be of one emulated GPU, which outlives them. Memory is mapped by processes that are
// forked after it was allocated.
std::unique_ptr<Gpu> emulated_device(emulator::Device& gpu, int resident_blocks, int ordinal = 0);

}  // namespace weft::test
