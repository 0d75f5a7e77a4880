// Slurm's compressed lists.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace weft {

// "node[01-03,7],x2,r[1-2]c[0-1]" -> node01 node02 node03 node7 x2 r1c0 r1c1 r2c0 r2c1.
Result<std::vector<std::string>> expand_hosts(std::string_view list);
// "2(x3),1" -> 2 2 2 1.
Result<std::vector<int>> expand_counts(std::string_view list);

}  // namespace weft
