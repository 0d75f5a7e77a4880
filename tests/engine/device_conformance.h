// What every back end of Gpu has to keep.
#pragma once

#include "engine/device/gpu.h"

namespace weft::test {

void conforms(Gpu& device);
// Of two GPUs: each knows which memory is the other one's.
void tell_memory_apart(Gpu& one, Gpu& other);

}  // namespace weft::test
