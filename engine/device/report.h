// What a kernel that gave up has to say, as a Status.
#pragma once

#include <string_view>

#include "base/status.h"
#include "kernels/device_program.h"

namespace weft {

// ok where nothing gave up. REQUIRES: the launch that filled it in has ended.
Status explain(const device::Report& report, std::string_view algorithm, Rank me);

}  // namespace weft
