#include <map>

#include "tests/support/emulated_device.h"
#include "tests/support/ranks_gpus.h"
#include "tests/support/with_memory.h"

namespace weft::test {

struct RanksGpus::State {
  std::map<std::string, emulator::Device> devices;  // by host
  std::vector<std::shared_ptr<Gpu>> gpus;           // by rank
};

RanksGpus::RanksGpus(const std::vector<std::string>& host_of_rank)
    : state_(std::make_unique<State>()) {
  const int ranks = static_cast<int>(host_of_rank.size());
  const int resident = 2 * ranks;
  for (const std::string& host : host_of_rank) {
    // Copies, events and waits for these take a block, too.
    const auto [device, made] = state_->devices.try_emplace(host, resident + 6 * ranks);
    state_->gpus.push_back(std::make_shared<WithMemory>(emulated_device(device->second, resident)));
  }
}

RanksGpus::~RanksGpus() = default;

std::shared_ptr<Gpu> RanksGpus::of(Rank rank) const {
  return state_->gpus[static_cast<size_t>(rank)];
}

// emulated_device.cc's streams begin with the emulator's.
void hold(Gpu::Stream stream, const std::atomic<bool>& go) {
  static_cast<emulator::Stream*>(stream)->wait([&go] { return go.load(); });
}

}  // namespace weft::test
