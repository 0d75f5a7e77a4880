// Which CPUs ranks may use, and are bound to.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace weft {

// Those that the calling thread may use, ascending; where the system does not tell, all. One at
// least.
std::vector<int> usable_cpus();

// As the kernel writes them: "0-3,8". REQUIRES: ascending
std::string cpu_list(const std::vector<int>& cpus);
// From a text that may come from anywhere: ascending, each below 65,536. An empty one has none.
Result<std::vector<int>> read_cpu_list(std::string_view text);

// Those, one of every physical core first, then their siblings: so that ranks share a core's
// execution units only when there are more ranks than cores. `sysfs`: the folder that describes
// CPUs; where it does not, every CPU counts as a core.
std::vector<int> cpus_core_by_core(const std::string& sysfs = "/sys/devices/system/cpu");

// Best effort: unbound, a process is only slower.
void bind_to_cpu(int cpu);
// Undoes that for the calling thread, and for threads that it starts: all that the system allows.
void unbind_from_cpus();

}  // namespace weft
