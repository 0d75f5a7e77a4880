#include "engine/device/queues.h"

#include <cstdlib>
#include <string>

#include "base/parse.h"

namespace weft {
namespace {

constexpr const char* kVariable = "CUDA_DEVICE_MAX_CONNECTIONS";

}  // namespace

uint32_t device_queues(const Environment& env) {
  const auto number = parse_int(env.get(kVariable).value_or(""), 1, kDeviceQueuesMost);
  return number.ok() ? static_cast<uint32_t>(*number) : kDeviceQueues;
}

void ask_for_device_queues() {
  constexpr int kKeep = 0;
  ::setenv(kVariable, std::to_string(kDeviceQueuesMost).c_str(), kKeep);
}

}  // namespace weft
