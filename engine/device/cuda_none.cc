// In builds without CUDA.
#include "engine/device/cuda.h"

namespace weft {
namespace {

Status none() {
  return unsupported(
      "there is no GPU: weft was built without CUDA; build it where nvcc is, with WEFT_CUDA=ON");
}

}  // namespace

Result<int> cuda_device_count() { return none(); }

Result<std::shared_ptr<Gpu>> open_cuda_device(int) { return none(); }

Result<std::shared_ptr<Gpu>> find_current_cuda_device() { return none(); }

Result<std::shared_ptr<Gpu>> find_cuda_device(std::string_view wish) {
  if (wish == "none") return unsupported("option device (WEFT_DEVICE) is none");
  return none();
}

}  // namespace weft
