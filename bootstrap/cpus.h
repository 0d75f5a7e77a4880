// Which CPUs ranks are bound to.
#pragma once

#include <string>
#include <vector>

namespace weft {

// The CPUs that this process may use, one of every physical core first, then their siblings: so
// that ranks share a core's execution units only when there are more ranks than cores. `sysfs`: the
// folder that describes CPUs; where it does not, every CPU counts as a core.
std::vector<int> cpus_core_by_core(const std::string& sysfs = "/sys/devices/system/cpu");

// Best effort: unbound, a process is only slower.
void bind_to_cpu(int cpu);
// Undoes that for the calling thread, and for threads that it starts: all that the system allows.
void unbind_from_cpus();

}  // namespace weft
