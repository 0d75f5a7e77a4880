#include "engine/device/choice.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/text.h"

namespace weft {
namespace {

// The ranks of one process that meet on one GPU. No two GPUs have the same UUID; ranks on one may
// play several hosts.
struct Tenants {
  std::string_view host;
  uint32_t ranks = 0;
  uint32_t blocks_most = UINT32_MAX, queues = UINT32_MAX;
};

using Uuid = std::string_view;

struct Crowd {
  std::map<std::pair<Uuid, int64_t>, Tenants> tenants;
  std::map<Uuid, int> processes;
};

Crowd crowd_of(std::span<const DevicePlace> places) {
  Crowd crowd;
  for (const DevicePlace& place : places) {
    const auto [at, added] = crowd.tenants.try_emplace({place.gpu, place.process});
    if (added) ++crowd.processes[place.gpu];
    Tenants& tenants = at->second;
    tenants.host = place.host;
    ++tenants.ranks;
    tenants.blocks_most = std::min(tenants.blocks_most, place.blocks_most);
    tenants.queues = std::min(tenants.queues, place.queues);
  }
  return crowd;
}

std::string too_few_queues(Uuid gpu, const Tenants& tenants) {
  const uint32_t streams = tenants.ranks * kStreamsOfRank;
  if (streams <= tenants.queues) return {};
  const std::string instead =
      streams <= kDeviceQueuesMost
          ? concat("set CUDA_DEVICE_MAX_CONNECTIONS=", kDeviceQueuesMost, " before CUDA starts")
          : concat("give a process at most ", kDeviceQueuesMost / kStreamsOfRank,
                   " ranks on a GPU");
  return concat("a process on ", tenants.host, " has ", tenants.queues, " work queues on GPU ", gpu,
                ", and the streams of its ", tenants.ranks, " ranks there need ", streams, "; ",
                instead);
}

// Why blocks of all ranks of a process would not all run at once; empty where they would.
std::string crowded(Uuid gpu, const Tenants& tenants) {
  if (tenants.ranks > tenants.blocks_most)
    return concat("GPU ", gpu, " of ", tenants.host, " has room for ", tenants.blocks_most,
                  " blocks at once, and ", tenants.ranks, " ranks share it");
  return tenants.ranks > 1 ? too_few_queues(gpu, tenants) : std::string();
}

// ok, or why streams of some rank cannot wait for others'.
Status check_streams(std::span<const DevicePlace> places, const Crowd& crowd) {
  for (const auto& [where, tenants] : crowd.tenants)
    if (const std::string why = too_few_queues(where.first, tenants); !why.empty())
      return unsupported(concat("streams would wait for each other for ever: ", why));
  for (const DevicePlace& place : places)
    if (!place.cell_waits)
      return unsupported(concat("streams of GPU ", place.gpu, " of ", place.host,
                                " cannot wait for memory, which ranks need that share a GPU as "
                                "processes; give every rank a GPU of its own, or make them threads "
                                "of one process"));
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
  if (wish == "stream") {
    WEFT_TRY(check_streams(places, crowd));
    return DeviceChoice{DeviceEngine::stream, choice.blocks, "It was asked for."};
  }
  if (wish == "persistent") {
    choice.reason = "It was asked for.";
    if (against.empty()) return choice;
    return unsupported(
        concat("the persistent device engine would wait for ever: ", against, "; or use auto"));
  }
  for (const auto& [gpu, processes] : crowd.processes)
    if (processes > 1 && against.empty()) against = concat(processes, " processes share GPU ", gpu);
  if (!against.empty()) {
    choice.engine = DeviceEngine::stream;
    WEFT_TRY(check_streams(places, crowd));
  }
  choice.reason = against.empty() ? "Blocks of all ranks that share a GPU run at once."
                                  : concat("Kernels must not wait for each other: ", against, ".");
  return choice;
}

}  // namespace weft
