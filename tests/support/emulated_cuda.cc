#include "tests/support/emulated_cuda.h"

#include <array>
#include <limits>

#include "base/parse.h"
#include "base/text.h"
#include "engine/device/cuda.h"
#include "tests/support/emulated_device.h"

namespace weft {
namespace {

constexpr int kBlocksOfRank = 2;
constexpr int kBlocks = 64;  // copies, events and waits for these take one each, too

thread_local int current = -1;

emulator::Device& gpu(int ordinal) {
  static const auto all = [] {
    std::array<emulator::Device*, test::kGpus> made{};  // for ever: threads may outlive main()
    for (emulator::Device*& one : made) one = new emulator::Device(kBlocks);
    return made;
  }();
  return *all[static_cast<size_t>(ordinal)];
}

}  // namespace

Result<int> cuda_device_count() { return test::kGpus; }

Result<std::shared_ptr<Gpu>> open_cuda_device(int ordinal) {
  constexpr int kRanksOfGpu = 4;  // at most
  if (ordinal < 0 || ordinal >= test::kGpus)
    return invalid_argument(concat("there is no GPU ", ordinal, "; there are ", test::kGpus));
  return std::shared_ptr<Gpu>(
      test::emulated_device(gpu(ordinal), kBlocksOfRank * kRanksOfGpu, ordinal));
}

Result<std::shared_ptr<Gpu>> find_cuda_device(std::string_view wish) {
  if (wish == "none") return unsupported("option device (WEFT_DEVICE) is none");
  if (wish == "auto" && current < 0) return unsupported("this thread has used no GPU");
  if (wish == "auto") return open_cuda_device(current);
  const Result<int64_t> ordinal = parse_int(wish, 0, std::numeric_limits<int>::max());
  if (!ordinal.ok()) return ordinal.status();
  return open_cuda_device(static_cast<int>(*ordinal));
}

Result<std::shared_ptr<Gpu>> find_current_cuda_device() { return find_cuda_device("auto"); }

namespace test {

bool use_gpu(int ordinal) {
  current = ordinal;
  return true;
}

}  // namespace test
}  // namespace weft
