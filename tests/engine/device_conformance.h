// What every back end of Device has to keep.
#pragma once

#include "engine/device/device.h"

namespace weft::test {

void conforms(Device& device);

}  // namespace weft::test
