#include "engine/device/choice.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/text.h"

namespace weft {
namespace {

// The ranks of one process that meet on one GPU.
struct Tenants {
  uint32_t ranks = 0;
  uint32_t blocks_most = UINT32_MAX, queues = UINT32_MAX;
};

using GpuName = std::pair<std::string_view, std::string_view>;  // host, UUID

struct Crowd {
  std::map<std::pair<GpuName, int64_t>, Tenants> tenants;
  std::map<GpuName, int> processes;
};

Crowd crowd_of(std::span<const DevicePlace> places) {
  Crowd crowd;
  for (const DevicePlace& place : places) {
    const GpuName gpu{place.host, place.gpu};
    const auto [at, added] = crowd.tenants.try_emplace({gpu, place.process});
    if (added) ++crowd.processes[gpu];
    Tenants& tenants = at->second;
    ++tenants.ranks;
    tenants.blocks_most = std::min(tenants.blocks_most, place.blocks_most);
    tenants.queues = std::min(tenants.queues, place.queues);
  }
  return crowd;
}

// Why blocks of all ranks of a process would not all run at once; empty where they would.
std::string crowded(const GpuName& gpu, const Tenants& tenants) {
  if (tenants.ranks > tenants.blocks_most)
    return concat("GPU ", gpu.second, " of ", gpu.first, " has room for ", tenants.blocks_most,
                  " blocks at once, and ", tenants.ranks, " ranks share it");
  if (tenants.ranks > tenants.queues)
    return concat("a process on ", gpu.first, " has ", tenants.queues, " work queues, and ",
                  tenants.ranks, " ranks on GPU ", gpu.second,
                  "; set CUDA_DEVICE_MAX_CONNECTIONS to more before CUDA starts");
  return {};
}

}  // namespace

std::string_view name(DeviceEngine engine) {
  return engine == DeviceEngine::persistent ? "persistent" : "stream";
}

Result<DeviceChoice> choose_device_engine(std::span<const DevicePlace> places,
                                          std::string_view wish) {
  WEFT_CHECK(!places.empty());
  if (wish != "auto" && wish != "persistent" && wish != "stream")
    return invalid_argument(
        concat("device engine '", wish, "' is not known; use auto, persistent or stream"));
  const Crowd crowd = crowd_of(places);
  DeviceChoice choice{.engine = DeviceEngine::persistent, .blocks = UINT32_MAX};
  std::string against;
  for (const auto& [where, tenants] : crowd.tenants) {
    choice.blocks = std::min(choice.blocks, std::max(1u, tenants.blocks_most / tenants.ranks));
    if (against.empty()) against = crowded(where.first, tenants);
  }
  if (wish == "stream")
    return DeviceChoice{DeviceEngine::stream, choice.blocks, "It was asked for."};
  if (wish == "persistent") {
    choice.reason = "It was asked for.";
    if (against.empty()) return choice;
    return unsupported(
        concat("the persistent device engine would wait for ever: ", against, "; or use auto"));
  }
  for (const auto& [gpu, processes] : crowd.processes)
    if (processes > 1 && against.empty())
      against = concat(processes, " processes share GPU ", gpu.second, " of ", gpu.first);
  if (!against.empty()) choice.engine = DeviceEngine::stream;
  choice.reason = against.empty() ? "Blocks of all ranks that share a GPU run at once."
                                  : concat("Kernels must not wait for each other: ", against, ".");
  return choice;
}

}  // namespace weft
