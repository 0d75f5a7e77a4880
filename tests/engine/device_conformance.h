// What every back end of Gpu has to keep.
#pragma once

#include "engine/device/gpu.h"

namespace weft::test {

void conforms(Gpu& device);

}  // namespace weft::test
