// The GPU made of threads (tests/emulator), as the engine sees a GPU.
#pragma once

#include <memory>

#include "engine/device/device.h"
#include "tests/emulator/emulator.h"

namespace weft::test {

// Several may be of one emulated GPU, which outlives them. Memory is mapped by processes that are
// forked after it was allocated.
std::unique_ptr<Device> emulated_device(emulator::Device& gpu, int resident_blocks);

}  // namespace weft::test
